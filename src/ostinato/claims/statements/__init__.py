"""The claims, one file each; importing this package registers them all. Heavy rooms open when one is measured."""

from ostinato.claims.statements import derivative_products

__all__ = ["derivative_products"]
