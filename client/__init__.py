"""Calls a Regard server from Python: `Client` for threads, `AsyncClient` for asyncio, the same arguments and answers.

    from client import Client

    with Client("127.0.0.1:50051") as client:
        for translation in client.translate(["We are eating bread."], attention="word"):
            print(translation.text, translation.segments[0].hypotheses[0].attention.weights)
        for caption in client.caption(["photo.jpg"], attention="word"):
            print(caption.text, caption.maps.shape)

Draws no pictures and prints nothing: `client.pictures`, `client.overlays` and `client.terminal` do, and are imported
on their own.
"""

from client.asynchronous import AsyncClient
from client.captions import Caption, Image
from client.errors import (
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
from client.requests import AttentionQuery, CaptionOptions, ScoreOptions, TranslateOptions
from client.results import (
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
from client.synchronous import Client

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
