"""How PyTorch learns of the operator.

torch.library.custom_op would do the same, at several times the cost a call on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_libraries: dict[str, torch.library.Library] = {}
"""An operator is there as long as the library that defined it."""


def define(
    namespace: str,
    name: str,
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
) -> Callable[..., Any]:
    """Defines an operator for tensors on every device, and returns it.

    The kernel counts the versions of what it writes. The fake kernel only allocates.
    """
    _libraries.pop(name, None)  # The package is loaded again.
    library = _libraries[name] = torch.library.Library(namespace, "FRAGMENT")
    library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, torch.compiler.disable(kernel), "CompositeExplicitAutograd")
    torch.library.register_fake(f"{namespace}::{name}", fake, lib=library)
    operator = getattr(getattr(torch.ops, namespace), name).default
    library.impl(name, _without_derivative(operator), "Autograd")
    return operator  # type: ignore[no-any-return]


def _without_derivative(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Calls the operator below autograd; to go back through it is an error."""
    below_autograd = torch._C._AutoDispatchBelowAutograd

    class NoDerivative(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, *arguments: Any) -> Any:
            del context
            with below_autograd():
                return operator(*arguments)

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            del context, gradients
            raise RuntimeError(f"{operator} has no derivative")

    def call(*arguments: Any) -> Any:
        if torch.is_grad_enabled():
            for argument in arguments:
                if isinstance(argument, torch.Tensor) and argument.requires_grad:
                    return NoDerivative.apply(*arguments)
        with below_autograd():
            return operator(*arguments)

    return call
