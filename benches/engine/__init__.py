"""Our decode engine beside CTranslate2 on the same weights, in turn: `regard bench engine`.

A bundle and its checkpoint enter; ratios with intervals leave.
"""
