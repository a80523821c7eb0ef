"""Answers ModelService: lists and describes the models of this server, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from regard.contract.bundle import LoadedBundle
from regard.server.bundle.registry import Registry
from regard.server.services.call import Call, PendingReply
from regard.server.services.request_messages import refuse_unknown_fields
from regard.server.settings import Limits
from regard.v1 import model_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelService:
    """Describes all models of a server.

    Attributes:
        registry: the models.
        limits: that clients are told.
    """

    registry: Registry
    limits: Limits

    async def list_models(self, request: model_pb2.ListModelsRequest, call: Call) -> PendingReply:
        """Answer ListModels.

        Raises:
            InvalidRequest: the request has a field that this server does not know.
        """
        refuse_unknown_fields(request)
        return PendingReply(write=self._list, small=True)

    async def get_model(self, request: model_pb2.GetModelRequest, call: Call) -> PendingReply:
        """Answer GetModel.

        Raises:
            InvalidRequest: the request has a field that this server does not know.
            ModelNotFound: there is no such model or version.
        """
        refuse_unknown_fields(request)
        bundle = self.registry.resolve(request.name, request.version)
        call.model, call.version = bundle.key
        return PendingReply(
            write=lambda: model_pb2.GetModelResponse(model=self._describe(bundle), bundle=bundle.manifest), small=True
        )

    def _list(self) -> model_pb2.ListModelsResponse:
        return model_pb2.ListModelsResponse(
            models=map(self._describe, self.registry.bundles),
            limits=model_pb2.ServerLimits(
                max_texts=self.limits.max_texts,
                max_text_bytes=self.limits.max_text_bytes,
                max_beam_size=self.limits.max_beam_size,
                max_message_bytes=self.limits.max_message_bytes,
                max_images=self.limits.max_images,
                max_image_bytes=self.limits.max_image_bytes,
                max_image_pixels=self.limits.max_image_pixels,
            ),
        )

    def _describe(self, bundle: LoadedBundle) -> model_pb2.Model:
        manifest = bundle.manifest
        return model_pb2.Model(
            name=bundle.key.name,
            version=bundle.key.version,
            digest=bundle.digest,
            task=manifest.task,
            source_languages=manifest.source_languages,
            target_languages=manifest.target_languages,
            profile=bundle.profile,
            is_default=self.registry.is_default(bundle),
            description=manifest.description,
            image=manifest.image if bundle.image is not None else None,
        )
