"""Trained weights as a model that steps without torch: files, the step itself, sessions, and ONNX.

model = open_model(path).model          # a LanguageModel
sessions = Sessions(model)              # thousands of states in one slab
"""

from ostinato.stream.model import StreamModel
from ostinato.stream.session import Sessions, surprise, top_k
from ostinato.stream.store import StreamFile, is_stream_file, open_model, save_model

__all__ = ["Sessions", "StreamFile", "StreamModel", "is_stream_file", "open_model", "save_model", "surprise", "top_k"]
