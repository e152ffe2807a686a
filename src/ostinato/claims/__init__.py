"""Statements that the field makes about these models, each measured here and judged by one rule.

claim       what a claim is: statement, misreading, sources, intervals expected before the run; the registry
verdict     the rule: holds here, does not hold here, not decidable at this size
evidence    what was measured, one number a seed, and the curves of a figure
running     seed after seed, kept as they come
results     results/claims/ID.json
draw, page  the figure (SVG) and the page (Markdown) of a result; all pages as one
sequences   generated tasks with long lags
chains      hidden Markov chains, under which any continuation has a known probability
training    one small trainer for them, on the product's cells and optimiser
recurrences gradients through many steps
language    language models on the embedded corpus (corpus), by the product's own tasks
tasks       sequence tasks, by the product's own loop
parts       progress of a measurement made of parts
timing      seconds of processor, and how they grow
statements  the claims, one file each
"""
