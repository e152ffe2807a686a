"""How good answers are: each measure a frozen value with its count and the signature that makes it comparable."""
