"""The optimiser."""

from __future__ import annotations

from inspect import unwrap

import torch


class Adam(torch.optim.Adam):
    """torch's Adam without its wrappers for torch's compiler, whose import takes a second."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
