"""A sequence to another one that is not aligned with it: translation, spelling to sound, transliteration."""
