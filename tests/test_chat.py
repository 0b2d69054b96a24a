"""Chats: rendering as ``transformers`` renders, ids as the reference makes them, and turns that cannot be forged.

``chat_golden.json`` holds what ``transformers`` (its version stands in the file) rendered of the conversations in
``chat_cases.py`` on 2026-05-17; null where it raised.
"""

from __future__ import annotations

import builtins
import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chat_cases import CASES
from conftest import ROOT, artifact, reference, tokenizers

from toktier.chat import rendering
from toktier.errors import ChatTemplateError
from toktier.tokenizer import Tokenizer, instance

TEMPLATES = ROOT.parent / "shared" / "chat_templates"
GOLDEN: dict[str, dict[str, str | None]] = json.loads(
    (Path(__file__).parent / "chat_golden.json").read_text(encoding="utf-8")
)["texts"]
# Embedded tokenizers by the name of their template's folder.
EMBEDDED = {"deepseek_v3": "deepseek-v3", "gpt_oss": "gpt-oss", "qwen3": "qwen3"}
# Folders without a tokenizer of their own name.
OTHER_NAMES = {"deepseek_v3_1": "deepseek-v3"}


@pytest.fixture(autouse=True)
def fixed_date(monkeypatch: pytest.MonkeyPatch) -> None:
    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Then:
            return cls(2026, 5, 17, 8, 9, 10)

    monkeypatch.setattr(rendering, "datetime", Then)


@cache
def tokenizer(name: str) -> Tokenizer:
    return instance(artifact(name))


def chat(model: str, **options: Any) -> Any:
    """A chat session of a model that has golden texts."""
    if model in EMBEDDED:
        return tokenizer(EMBEDDED[model]).chat_session(**options)
    if not TEMPLATES.is_dir():
        pytest.skip("chat templates other than the embedded ones (../shared/chat_templates) are not on this machine")
    return tokenizer(OTHER_NAMES.get(model, model)).chat_session(TEMPLATES / model, **options)


# --- rendering ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", GOLDEN)
def test_texts_are_those_of_transformers(model: str) -> None:
    session = chat(model)
    guarded = chat(model, special="text")
    for name, case in CASES.items():
        expected = GOLDEN[model][name]
        if expected is None:
            for one in (session, guarded):
                with pytest.raises(ChatTemplateError):
                    one.update(case.messages, **case.options)
            continue
        assert session.render(case.messages, **case.options) == expected, name
        session.update(case.messages, **case.options)
        assert session.text == expected, name
        guarded.update(case.messages, **case.options)
        assert guarded.text == expected, name
