"""How a model learns: losses, guidance, rewards, distillation, the fit loop, checkpoints.

A recipe, a model and batches enter; checkpoints leave. It does not know which recipes there are.
"""
