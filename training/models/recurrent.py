"""Computes recurrent units, gated (GRU) or with long short-term memory (LSTM): one step of a decoder, a whole source.

It does not know words, nor where a context comes from. What tells the two units apart is in one table, `UNITS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class RnnState(NamedTuple):
    """What a gated unit remembers."""

    hidden: Tensor  # [batch, dim]


class LstmState(NamedTuple):
    """What a unit with long short-term memory remembers: what it shows, and what it keeps to itself."""

    hidden: Tensor  # [batch, dim]
    cell: Tensor  # [batch, dim]


RecurrentState: TypeAlias = RnnState | LstmState
UnitName: TypeAlias = Literal["gru", "lstm"]


def _advance_gru(inputs: Tensor, recurrent: Tensor, state: RnnState) -> RnnState:
    """Cho et al. 2014, section 2.3, with the reset after the product, as cuDNN and torch have it."""
    dim = state.hidden.shape[1]
    input_gates, input_new = torch.split(inputs, [2 * dim, dim], dim=1)
    hidden_gates, hidden_new = torch.split(recurrent, [2 * dim, dim], dim=1)
    reset, update = torch.sigmoid(input_gates + hidden_gates).chunk(2, dim=1)
    new = torch.tanh(input_new + reset * hidden_new)
    return RnnState(new + update * (state.hidden - new))


def _advance_lstm(inputs: Tensor, recurrent: Tensor, state: LstmState) -> LstmState:
    """Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000."""
    enter, forget, new, show = (inputs + recurrent).chunk(4, dim=1)
    cell = torch.sigmoid(forget) * state.cell + torch.sigmoid(enter) * torch.tanh(new)
    return LstmState(torch.sigmoid(show) * torch.tanh(cell), cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one kind of unit is made of."""

    gates: int  # in torch's order: reset, update, new or enter, forget, new, show
    forget: int | None  # which of them is a forget gate
    state: type[RnnState] | type[LstmState]
    advance: Callable[[Tensor, Tensor, Any], RecurrentState]  # given parts of all gates and the state that it makes
    layer: type[nn.GRU] | type[nn.LSTM]
    operator: str  # of ONNX
    onnx_order: tuple[int, ...]  # ONNX's order of the gates
    onnx_attributes: Mapping[str, int]


UNITS: Mapping[str, Unit] = {
    "gru": Unit(
        gates=3,
        forget=None,
        state=RnnState,
        advance=_advance_gru,
        layer=nn.GRU,
        operator="GRU",
        onnx_order=(1, 0, 2),
        onnx_attributes={"linear_before_reset": 1},
    ),
    "lstm": Unit(
        gates=4,
        forget=1,
        state=LstmState,
        advance=_advance_lstm,
        layer=nn.LSTM,
        operator="LSTM",
        onnx_order=(0, 3, 1, 2),
        onnx_attributes={},
    ),
}


def initialise(unit: Unit, *, recurrent: Tensor, bias: Tensor, recurrent_bias: Tensor) -> None:
    """Make recurrent weights orthogonal gate by gate, and let a forget gate begin open: Jozefowicz et al. 2015."""
    for gate in recurrent.detach().chunk(unit.gates):
        nn.init.orthogonal_(gate)
    if unit.forget is not None:
        # Both biases are added.
        nn.init.ones_(bias.detach().chunk(unit.gates)[unit.forget])
        nn.init.zeros_(recurrent_bias.detach().chunk(unit.gates)[unit.forget])


class Cell(nn.Module):
    """One step of a recurrent unit over a token and, if there is one, a context: Bahdanau et al. 2015, appendix A.1.1.

    Token and context enter the gates by products of their own, which the caller makes with `token` and `put_in`: those
    that do not depend on the step before can be made for all steps at once.
    """

    def __init__(self, name: UnitName, *, token_dim: int, context_dim: int | None, dim: int) -> None:
        super().__init__()
        self.unit = UNITS[name]
        gates = self.unit.gates * dim
        self.token = nn.Linear(token_dim, gates)
        self.context = None if context_dim is None else nn.Linear(context_dim, gates, bias=False)
        self.recurrent = nn.Linear(dim, gates)

    def initialise(self) -> None:
        """Give the weights their first values, where they are not those of a linear layer."""
        initialise(self.unit, recurrent=self.recurrent.weight, bias=self.token.bias, recurrent_bias=self.recurrent.bias)

    def put_in(self, context: Tensor) -> Tensor:
        """Return what a context [batch, context_dim] puts into the gates [batch, gates * dim]; there has to be one."""
        assert self.context is not None
        return self.context(context)

    def forward(self, inputs: Tensor, state: RecurrentState) -> RecurrentState:
        """Return the next state; inputs [batch, gates * dim] is the sum of what token and context put in."""
        return self.unit.advance(inputs, self.recurrent(state.hidden), state)


class BidirectionalEncoder(nn.Module):
    """Reads each row to its real length in both directions, whatever the padding."""

    # Made by prepare_for_export alone.
    onnx_input: Tensor
    onnx_recurrent: Tensor
    onnx_bias: Tensor

    def __init__(self, name: UnitName, *, input_dim: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.unit = UNITS[name]
        self._name = name
        # Its parameters are found under the unit's name.
        self.add_module(name, self.unit.layer(input_dim, dim, batch_first=True, bidirectional=True))

    def initialise(self) -> None:
        """Give the weights their first values, where they are not those of a linear layer."""
        weights = dict(self._layer.named_parameters())
        for suffix in ("_l0", "_l0_reverse"):
            initialise(
                self.unit,
                recurrent=weights["weight_hh" + suffix],
                bias=weights["bias_ih" + suffix],
                recurrent_bias=weights["bias_hh" + suffix],
            )

    def forward(self, inputs: Tensor, length: Tensor) -> tuple[Tensor, RecurrentState]:
        """Read inputs [batch, source, input_dim] of length int64 [batch], each at least 1.

        Returns hidden states [batch, source, 2 * dim], zeros on padding, and the last states, whose tensors are
        [direction, batch, dim]: forward's at the row's last real position, backward's at its first.
        """
        if torch.onnx.is_in_onnx_export():
            return self._onnx_forward(inputs, length)
        packed = pack_padded_sequence(inputs, length.cpu(), batch_first=True, enforce_sorted=False)
        packed_states, last = self._layer(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=inputs.shape[1])
        return states, self.unit.state(*((last,) if isinstance(last, Tensor) else last))

    def prepare_for_export(self) -> None:
        """Lay the weights out for ONNX's operator, beside those that are trained; call it before tracing.

        ONNX orders gates otherwise than torch. Done in the traced code this would leave chains of slices in the graph.
        """
        weights = dict(self._layer.named_parameters())

        def laid_out(name: str) -> Tensor:
            directions = [weights[name + suffix].detach() for suffix in ("_l0", "_l0_reverse")]
            gates = [direction.chunk(self.unit.gates) for direction in directions]
            return torch.stack([torch.cat([each[gate] for gate in self.unit.onnx_order]) for each in gates])

        self.register_buffer("onnx_input", laid_out("weight_ih"), persistent=False)
        self.register_buffer("onnx_recurrent", laid_out("weight_hh"), persistent=False)
        biases = torch.cat((laid_out("bias_ih"), laid_out("bias_hh")), dim=1)
        self.register_buffer("onnx_bias", biases, persistent=False)

    @property
    def _layer(self) -> nn.Module:
        return self.get_submodule(self._name)

    def _onnx_forward(self, inputs: Tensor, length: Tensor) -> tuple[Tensor, RecurrentState]:
        # Tracing torch's layer either freezes the length or fails on packing; the operator itself takes lengths.
        steps = inputs.transpose(0, 1)
        source, batch = steps.shape[:2]
        last_shapes = ((2, batch, self.dim),) * len(self.unit.state._fields)
        states, *last = torch.onnx.ops.symbolic_multi_out(
            self.unit.operator,
            (steps, self.onnx_input, self.onnx_recurrent, self.onnx_bias, length.to(torch.int32)),
            {"hidden_size": self.dim, "direction": "bidirectional", **self.unit.onnx_attributes},
            dtypes=(inputs.dtype,) * (1 + len(last_shapes)),
            shapes=((source, 2, batch, self.dim), *last_shapes),
        )
        return states.permute(2, 0, 1, 3).reshape(batch, source, 2 * self.dim), self.unit.state(*last)
