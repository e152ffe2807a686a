"""Statements that the field makes about these models, each measured here and judged by one rule.

claim       what a claim is: statement, misreading, sources, intervals expected before the run; the registry
verdict     the rule: holds here, does not hold here, not decidable at this size
evidence    what was measured, one number a seed, and the curves of a figure
running     seed after seed, kept as they come
results     results/claims/ID.json
draw, page  the figure (SVG) and the page (Markdown) of a result; all pages as one
training    one small trainer for generated sequence tasks; sequences: the tasks
statements  the claims, one file each
"""
