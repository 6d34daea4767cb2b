"""The decorators for functions that pick the key of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from wallaroo.api.decorated import Decorated, P, R

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class PartitionFunction(Decorated[P, R]):
    """The result of `@partition`: returns the key of the state object that a message belongs to."""

    decorator = "@wallaroo.partition"
    parameters = ("data",)
    class_prefix = "Partition"

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.partition = function


def partition(function: Callable[P, K]) -> PartitionFunction[P, K]:
    """Make a partition out of a function that takes `data` and returns its key.

    A key is any object that can be hashed and compared, such as a string, a number or a tuple of those.

    Args:
        function: The function.

    Returns:
        A `wallaroo.Partition` that is called like the function.

    >>> @partition
    ... def first_letter(word):
    ...     return word[0].lower() if word[:1].isalpha() else "!"
    >>> first_letter("Hello")
    'h'
    """
    return PartitionFunction(function)


class KeyExtractorFunction(Decorated[P, R]):
    """The result of `@key_extractor`: returns the key of a message for the following state computations."""

    decorator = "@wallaroo.key_extractor"
    parameters = ("data",)
    class_prefix = "KeyExtractor"

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.extract_key = function


def key_extractor(function: Callable[P, K]) -> KeyExtractorFunction[P, K]:
    """Make a key extractor, for `key_by`, out of a function that takes `data` and returns its key.

    A key is any object that can be hashed and compared, such as a string, a number or a tuple of those.

    Args:
        function: The function.

    Returns:
        A `wallaroo.KeyExtractor` that is called like the function.

    >>> @key_extractor
    ... def customer(order):
    ...     return order["customer"]
    >>> customer({"customer": "Ada", "item": "tea"})
    'Ada'
    """
    return KeyExtractorFunction(function)
