"""Calls a Regard server from Python: `Client` for threads, `AsyncClient` for asyncio, the same arguments and answers.

    from regard.client import Client

    with Client("127.0.0.1:50051") as client:
        for translation in client.translate(["We are eating bread."], attention="word"):
            print(translation.text, translation.segments[0].hypotheses[0].attention.weights)
        for caption in client.caption(["photo.jpg"], attention="word"):
            print(caption.text, caption.maps.shape)

Draws no pictures and prints nothing: `regard.client.drawing.pictures`, `regard.client.drawing.overlays` and
`regard.client.drawing.terminal` do, and are imported on their own.
"""

from regard.client.asynchronous import AsyncClient
from regard.client.captions import Caption, Image
from regard.client.errors import (
    CallCancelled,
    CannotConnect,
    DeadlinePassed,
    InvalidRequest,
    MessageTooLarge,
    ModelNotFound,
    NotServing,
    RegardCallError,
    ServerBusy,
    ServerFault,
    UnreadableReply,
    UnsupportedByModel,
    Violation,
    WrongServer,
)
from regard.client.requests import AttentionQuery, CaptionOptions, ScoreOptions, TranslateOptions
from regard.client.results import (
    Alignment,
    Attention,
    Hypothesis,
    ItemError,
    Model,
    ModelDetails,
    ModelReference,
    Score,
    Segment,
    Span,
    Timing,
    Token,
    Translation,
    Word,
)
from regard.client.synchronous import Client

__all__ = [
    "Alignment",
    "AsyncClient",
    "Attention",
    "AttentionQuery",
    "CallCancelled",
    "CannotConnect",
    "Caption",
    "CaptionOptions",
    "Client",
    "DeadlinePassed",
    "Hypothesis",
    "Image",
    "InvalidRequest",
    "ItemError",
    "MessageTooLarge",
    "Model",
    "ModelDetails",
    "ModelNotFound",
    "ModelReference",
    "NotServing",
    "RegardCallError",
    "Score",
    "ScoreOptions",
    "Segment",
    "ServerBusy",
    "ServerFault",
    "Span",
    "Timing",
    "Token",
    "TranslateOptions",
    "Translation",
    "UnreadableReply",
    "UnsupportedByModel",
    "Violation",
    "Word",
    "WrongServer",
]
