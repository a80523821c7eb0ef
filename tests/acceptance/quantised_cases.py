"""The case about quantisation, X07: what a server says of its int8 graphs beside those that they were made from.

It does not measure: export has, on standard sets, and the manifest of a bundle holds what came out.
"""

from tests.acceptance.case_server import SECONDS, CaseServer, Outcome

from regard.v1.bundle_pb2 import PRECISION_INT8, Profile, QualityFigure
from regard.v1.model_pb2 import GetModelRequest, ListModelsRequest
from regard.v1.model_pb2_grpc import ModelServiceStub

LEAST_AGREEMENT = 0.95
# Points of BLEU, chrF, AER and their like; below it lies what another seed changes.
MOST_LOST = 1.0


def int8_quality(server: CaseServer) -> list[Outcome]:
    """Int8 graphs that answer otherwise than those in floating point."""
    models = ModelServiceStub(server.channel)
    outcomes: list[Outcome] = []
    for model in models.ListModels(ListModelsRequest(), timeout=SECONDS).models:
        asked = GetModelRequest(name=model.name, version=model.version)
        profiles = models.GetModel(asked, timeout=SECONDS).bundle.profiles
        exact = [profile for profile in profiles if profile.precision != PRECISION_INT8]
        for profile in profiles:
            if profile.precision == PRECISION_INT8:
                outcomes += _compare(f"{model.name}/{model.version} {profile.name}", profile, exact)
    return outcomes or [Outcome("X07", "int8 graphs", "as good as in floating point", "no model has any", None)]


def _compare(name: str, profile: Profile, exact: list[Profile]) -> list[Outcome]:
    agreement = profile.parity.greedy_agreement
    outcomes = [
        Outcome(
            "X07",
            f"{name}: tokens as in floating point",
            f"at least {LEAST_AGREEMENT:.0%}",
            f"{agreement:.1%}",
            agreement >= LEAST_AGREEMENT,
        )
    ]
    measured = {_key(figure): figure.value for other in exact for figure in other.quality}
    losses = {
        _key(figure): abs(measured[_key(figure)] - figure.value)
        for figure in profile.quality
        if _key(figure) in measured
    }
    expected = f"within {MOST_LOST:g} of floating point"
    if not losses:
        return [*outcomes, Outcome("X07", f"{name}: quality", expected, "no figures of both in its manifest", None)]
    (metric, test_set, search), most = max(losses.items(), key=lambda item: item[1])
    got = f"{len(losses)} figures, at most {most:.2f} off: {metric}, {test_set}, {search}"
    return [*outcomes, Outcome("X07", f"{name}: quality", expected, got, most <= MOST_LOST)]


def _key(figure: QualityFigure) -> tuple[str, str, str]:
    return figure.metric, figure.test_set, figure.search
