"""Files of pictures, through Pillow."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ostinato.core.errors import ConfigError, DataError
from ostinato.nn.captioner import Picture
from ostinato.tasks.captioning.options import DataOptions

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
"""What a file is called that is taken for a picture."""


def is_picture(path: str | Path) -> bool:
    """Whether a file is called like one."""
    return Path(path).suffix.lower() in ENDINGS


def pictures_in(folder: Path) -> list[Path]:
    """The pictures right in a folder, by name. Raises DataError if there is none."""
    found = sorted(path for path in folder.iterdir() if is_picture(path) and path.is_file())
    if not found:
        raise DataError(f"{folder}: no picture ({', '.join(ENDINGS)}) is in this folder; name another")
    return found


def read_picture(path: Path, where: str, options: DataOptions) -> Picture:
    """A picture as bytes [H, W, 3], or [H, W, 1] without colour, turned as its camera says, at the wanted size.

    where: what an error calls it. Raises DataError if it cannot be read, ConfigError without Pillow.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ConfigError("files of pictures are read by Pillow; pip install 'ostinato[pictures]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                if opened.mode[0] in "IF":
                    raise ValueError(f"its numbers are of mode {opened.mode}, not bytes; give it in a .npz file")
                turned = ImageOps.exif_transpose(opened).convert("RGB" if options.colour else "L")
    except FileNotFoundError:
        raise DataError(f"{where}: there is no picture {path}") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombWarning, Image.DecompressionBombError) as fault:
        raise DataError(f"{where}: {path} cannot be read as a picture ({fault})") from None
    if options.width is not None and options.height is not None:
        turned = turned.resize((options.width, options.height), Image.Resampling.BILINEAR)
    array = np.asarray(turned, np.uint8)
    return array if array.ndim == 3 else array[:, :, None]
