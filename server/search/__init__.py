"""Chooses tokens by the rule of `rule`: greedy search, beam search, n-gram blocking and forced targets.

Log-probabilities and attention of a step enter; next tokens, reorderings of beams and finished hypotheses leave.
`batch_search` is the way in. This room knows neither threads and queues nor what runs a model.
"""
