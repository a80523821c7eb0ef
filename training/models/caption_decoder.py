"""Writes captions with a recurrent unit that looks at the cells of a picture's map before every word.

Xu et al. 2015, sections 3.1.2 and 4.2. It does not know words, only ids, nor what the map was made of.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.training.models.attention import AdditiveAttention
from regard.training.models.dropout import PooledDropout
from regard.training.models.output_layer import TiedOutput
from regard.training.models.recurrent import UNITS, Cell, LstmState, RecurrentState, RnnState, UnitName


class RecurrentMemory(NamedTuple):
    """What the decoder attends to; all of it is real."""

    keys: Tensor  # [batch, source, attention]
    values: Tensor  # [batch, source, values]


class _Attended(NamedTuple):
    """What one step sees of the picture."""

    context: Tensor  # [row, values], gated
    weights: Tensor  # [row, source]


class RecurrentDecoder(nn.Module):
    """s_t = cell([y_{t-1}; c_t], s_{t-1}) with c_t = b_t sum_i a_{t,i} h_i, read out with c_t and y_{t-1}.

    e_{t,i} = f_att(s_{t-1}, h_i), a_t = softmax(e_t) over all cells of the map, and b_t = sigmoid(f_b(s_{t-1})) says
    how much of the picture the next word needs (Xu et al. 2015, section 4.2.1). s_0 is made from the mean of the map.
    """

    def __init__(
        self,
        *,
        cell: UnitName,
        vocabulary: int,
        output: int,
        values: int,
        embedding: int,
        hidden: int,
        attention: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self._scale = embedding**0.5
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.begin_state = nn.ModuleList(nn.Linear(values, hidden) for _ in UNITS[cell].state._fields)
        self.attention = AdditiveAttention(query_dim=hidden, memory_dim=values, dim=attention)
        self.gate = nn.Linear(hidden, 1)
        self.cell = Cell(cell, token_dim=embedding, context_dim=values, dim=hidden)
        self.readout = nn.Linear(hidden + values + embedding, embedding)
        self.output = TiedOutput(self.embedding, output)
        self.dropout = PooledDropout(dropout)
        # Read back multiplied by sqrt(dim), so that inputs have unit variance and first logits are small.
        nn.init.normal_(self.embedding.weight, std=embedding**-0.5)
        self.cell.initialise()

    def begin(self, values: Tensor) -> tuple[RecurrentMemory, RecurrentState]:
        """Return memory and s_0 of maps [batch, source, values]."""
        mean = values.mean(dim=1)
        made = [torch.tanh(layer(mean)) for layer in self.begin_state]
        state = RnnState(*made) if len(made) == 1 else LstmState(*made)
        return RecurrentMemory(self.attention.project(values), values), state

    def step(
        self, token: Tensor, state: RecurrentState, memory: RecurrentMemory
    ) -> tuple[Tensor, RecurrentState, Tensor]:
        """Feed token int64 [batch].

        Returns log-probs [batch, output], the next state and attention [batch, layer 1, head 1, source].
        """
        embedded = self._embed(token)
        attended = self._gated(state, *self.attention(state.hidden, *memory, None))
        state = self._advance(self.cell.token(embedded), attended, state)
        log_probs = torch.log_softmax(self.output(self._read_out(state.hidden, attended.context, embedded)), dim=1)
        return log_probs, state, attended.weights.unsqueeze(1).unsqueeze(1)

    def follow(self, state: RecurrentState, memory: RecurrentMemory, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Feed target_in int64 [row, target], as many rows of each picture, one after the other.

        Returns features [row, target, embedding] for `output` and attention [row, target, layer 1, head 1, source].
        """
        pictures, rows = len(memory.keys), len(target_in)
        state = type(state)(*(part.repeat_interleave(rows // pictures, dim=0) for part in state))
        embedded = self._embed(target_in)
        steps: list[_Attended] = []
        hiddens: list[Tensor] = []
        # Unbound once: slicing the large tensor at every step costs a full-sized gradient a step.
        for token_gates in self.cell.token(embedded).unbind(1):
            queries = torch.unflatten(state.hidden, 0, (pictures, -1))
            contexts, weights = self.attention.ask_many(queries, *memory)
            attended = self._gated(state, contexts.flatten(0, 1), weights.flatten(0, 1))
            state = self._advance(token_gates, attended, state)
            steps.append(attended)
            hiddens.append(state.hidden)
        contexts = torch.stack([attended.context for attended in steps], 1)
        attention = torch.stack([attended.weights for attended in steps], 1)
        return self._read_out(torch.stack(hiddens, 1), contexts, embedded), attention[:, :, None, None]

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * self._scale)

    def _gated(self, state: RecurrentState, context: Tensor, weights: Tensor) -> _Attended:
        return _Attended(torch.sigmoid(self.gate(state.hidden)) * context, weights)

    def _advance(self, token_gates: Tensor, attended: _Attended, state: RecurrentState) -> RecurrentState:
        return self.cell(token_gates + self.cell.put_in(attended.context), state)

    def _read_out(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        """Return features for `output`; the tensors have the same axes before the last."""
        features = self.readout(torch.cat((self.dropout(hidden), context, embedded), dim=-1))
        return self.dropout(torch.tanh(features))
