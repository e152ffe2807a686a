"""The interface of KenLM's Python module over n-gram models of any file: `import ostinato.kenlm as kenlm`.

docs/kenlm.md says what is the same and what differs.
"""

from __future__ import annotations

from ostinato.kenlm.model import LanguageModel, Model
from ostinato.kenlm.values import ARPALoadComplain, Config, FullScoreReturn, LoadMethod, State

__all__ = ["ARPALoadComplain", "Config", "FullScoreReturn", "LanguageModel", "LoadMethod", "Model", "State"]
