# ruff: noqa: E501, SIM905
"""Seeded transcripts of agents at work, and how they change from one model call to the next.

An agent sends its whole transcript at every call, and from call to call little of it is new: the generation
prompt at its end gives way to the assistant's turn, and a tool's result or a user's message follows, with a new
generation prompt.  Now and then a turn is edited, the agent goes back to an earlier turn and takes another way,
or the transcript is compacted to a summary.  ``steps`` plays such a history as changes of a text, and
``transcript`` is one that has grown to a given size.

The text is made up from the word lists and templates below: prose in ten languages with emoji, code in several
programming languages, JSON, logs, diffs, shell output, tables, and unbroken runs.  The same arguments give the
same text under every version of Python, except with ``library=True``, which puts functions of the installed
standard library among the code.
"""

from __future__ import annotations

import json
import random
import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")
Change = Literal["append", "replace_tail", "edit", "branch", "compact"]
Kind = Literal["append", "chat", "agent"]


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a transcript: characters ``start`` to ``stop`` give way to ``text``.

    ``change`` says what it is: ``"append"`` (``start`` and ``stop`` are the length), ``"replace_tail"`` (``stop``
    is the length, and what goes is short: a generation prompt), ``"edit"`` (in the middle), ``"branch"`` (all
    turns from an earlier one on go, another turn comes), or ``"compact"`` (most turns give way to a summary).
    """

    change: Change
    start: int
    stop: int
    text: str

    def apply(self, before: str) -> str:
        """The whole transcript after the change."""
        return before[: self.start] + self.text + before[self.stop :]


@dataclass(frozen=True, slots=True)
class Form:
    """How turns are written: ``opening`` (with ``{role}``), ``closing``, and the generation prompt."""

    opening: str
    closing: str
    generation: str


FORMS: dict[str, Form] = {
    "chatml": Form("<|im_start|>{role}\n", "<|im_end|>\n", "<|im_start|>assistant\n<think>\n"),
    "harmony": Form("<|start|>{role}<|message|>", "<|end|>", "<|start|>assistant"),
    "llama": Form(
        "<|start_header_id|>{role}<|end_header_id|>\n\n",
        "<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "deepseek": Form("<｜{role}｜>", "<｜end▁of▁sentence｜>", "<｜Assistant｜>"),
    "plain": Form("### {role}\n", "\n\n", "### assistant\n"),
}

SIZES: tuple[tuple[float, int], ...] = (
    *((0.0, 1), (0.04, 4), (0.10, 40), (0.20, 180), (0.35, 700), (0.50, 1_400), (0.65, 2_600)),
    *((0.80, 6_000), (0.90, 13_000), (0.96, 35_000), (0.99, 100_000), (1.0, 200_000)),
)
"""Quantiles of what one call adds, in characters; straight lines in between."""


# --- choosing: nothing but Random.random() --------------------------------------------------------


class _Choice:
    """Random choices that only use ``Random.random()``, whose sequence Python promises to keep."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed).random

    def below(self, bound: int) -> int:
        return int(self.random() * bound)

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def of(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def many(self, options: Sequence[str], count: int) -> list[str]:
        size, random_ = len(options), self.random
        return [options[int(random_() * size)] for _ in range(count)]

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def size(self, median: float, largest: int) -> int:
        """A number of characters, distributed as :data:`SIZES` says but scaled to this median."""
        at = self.random()
        for (low, small), (high, large) in pairwise(SIZES):
            if at <= high:
                size = small + (large - small) * (at - low) / (high - low)
                return max(1, min(largest, int(size * median / 1_400)))
        return largest


# --- words ------------------------------------------------------------------------------------------

PROSE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # name: (words or clauses, what stands between them, ends of sentences)
    "english": (
        "the a of to and in is it that for was on are with as they at be this have from or one had by but not what all we "
        "when your can there use each which how their if will other about out many then them these so some would make like "
        "into time has look two more write go see number no way could people my than first water been call who its now find "
        "server client request timeout retry cache deploy rollback latency throughput migration schema index query review "
        "failing test regression stack trace memory leak scheduler worker queue token prompt context session I'm we'll "
        "don't it's you've they'd user's can't README HTTP API JSON GPU v2.1 3rd 42 1,024 2026-03-14 O(n) e.g. i.e.",
        " ", (". ", ". ", ", ", "? ", "! ", ".\n\n", ": ", "; ", " (", ") ", " - ", " — "),
    ),
    "german": (
        "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass "
        "wir nach wird bei einer um am sind noch wie Anfrage Verbindung Zwischenspeicher Größe Schlüssel überprüfen Fehler "
        "Zeitüberschreitung Geschwindigkeitsbegrenzung Straße äußerst können müssen Übersicht",
        " ", (". ", ", ", "? ", "! ", ".\n\n"),
    ),
    "chinese": (
        "的 一 是 不 了 我们 需要 检查 这个 函数 为什么 返回 错误 请 先 运行 测试 然后 提交 代码 服务器 超时 重试 缓存 数据库 查询 很慢 "
        "如果 没有 问题 就 可以 合并 用户 反馈 说 页面 打不开 日志 里 显示 连接 被 拒绝 更新 版本 到 部署 上线 之前 看一下 配置 文件 内存 "
        "泄漏 第 三 个 请求 大约 2.5 秒 GPU 模型 词表 人工智能 上下文 长度",
        "", ("。", "，", "，", "、", "？", "！", "；", "：", "。\n", "（", "）", "“", "”"),
    ),
    "japanese": (
        "この エラー は なぜ 起きた の でしょうか サーバー が 応答 しません テスト を 実行 して ください 修正 した コード 確認 する 必要 が "
        "あります ありがとう ございます まず ログ を 見て みます データベース 接続 タイムアウト 設定 ファイル 更新 されて いない よう です "
        "キャッシュ 削除 して から もう一度 試して プルリクエスト レビュー お願い します ２０２６年 ５月",
        "", ("。", "、", "、", "。\n", "？", "！", "「", "」", "・", "…"),
    ),
    "korean": (
        "이 오류가 왜 발생했는지 확인해 주세요 서버가 응답하지 않습니다 테스트를 실행하고 결과를 알려 줘 캐시를 삭제한 다음 다시 시도했지만 "
        "여전히 느립니다 데이터베이스 연결 시간이 초과되었습니다 코드를 수정해서 커밋했습니다 감사합니다 그런데 로그를 보면 메모리 누수가 "
        "의심됩니다 3번째 요청부터 API 응답이",
        " ", (". ", ", ", "? ", "! ", ".\n"),
    ),
    "arabic": (
        "لماذا يظهر هذا الخطأ عند تشغيل الخادم يرجى التحقق من ملف الإعدادات ثم إعادة المحاولة مرة أخرى الاتصال بقاعدة البيانات بطيء جدا "
        "شكرا لك سأراجع السجلات الآن هل يمكنك كتابة اختبار لهذه الدالة الذاكرة ممتلئة والمستخدم لا يستطيع الدخول إلى الصفحة ٢٠٢٦ نسخة",
        " ", (". ", "، ", "؟ ", "! ", ".\n", "؛ "),
    ),
    "hindi": (
        "यह त्रुटि क्यों आ रही है कृपया सर्वर की जाँच करें और फिर से चलाएँ डेटाबेस कनेक्शन बहुत धीमा है मैंने कोड ठीक कर दिया "
        "परीक्षण विफल हो गया लॉग देखिए धन्यवाद उपयोगकर्ता पृष्ठ नहीं खोल पा रहा स्मृति भर गई संस्करण २ अनुरोध",
        " ", ("। ", ", ", "? ", "! ", "।\n"),
    ),
    "russian": (
        "почему возникает эта ошибка при запуске сервера проверьте пожалуйста файл настроек и попробуйте снова подключение к базе данных "
        "слишком медленное я исправил код и добавил тест спасибо теперь посмотрим журнал утечка памяти в обработчике запросов пользователь "
        "не может открыть страницу версия 2.0 ещё раз",
        " ", (". ", ", ", "? ", "! ", ".\n", " — "),
    ),
    "thai": (
        "ทำไม ข้อผิดพลาด นี้ จึง เกิดขึ้น เมื่อ เริ่ม เซิร์ฟเวอร์ กรุณา ตรวจสอบ ไฟล์ การตั้งค่า แล้ว ลองใหม่ อีกครั้ง ฐานข้อมูล ช้า มาก "
        "ขอบคุณ ครับ ฉัน จะ ดู บันทึก หน่วยความจำ รั่ว ผู้ใช้ เปิด หน้า ไม่ได้ รุ่น ๒",
        "", (" ", " ", "\n", "ๆ ", " 5 "),
    ),
    "emoji": (
        "👍 🎉 😀 🚀 ❤️ 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 🇯🇵 1️⃣ ✅ ❌ ⚠️ 🤔 😂 ✨ 🔥 ok done thanks lgtm ship it wow nice 谢谢 ありがとう",
        " ", (" ", "!", "!! ", "\n", "", "😂😂😂"),
    ),
}  # fmt: skip

_WORDS = {name: (words.split(), between, ends) for name, (words, between, ends) in PROSE.items()}
_LANGUAGES = ("english",) * 6 + ("chinese",) * 2 + tuple(PROSE)
_NAMES = (
    "parse load_config retry user_id request response buffer index cache handler session token_count makeWindow "
    "getUserById HTTPServer XMLParser _private __init__ node2vec i j k n value result items path data self ctx err"
).split()
_FILES = (
    "src/main.rs lib/utils.py tests/test_api.py docs/guide.md package.json Makefile .env.example app/models/user.ts "
    "cmd/server/main.go データ/設定.yaml notes/résumé.txt C:\\Users\\Ana\\report.docx /var/log/nginx/access.log"
).split()
_TOOLS = "read_file write_file run_command search_code web_fetch apply_patch list_directory".split()
_HEX = "0123456789abcdef"
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


# --- passages: each returns some dozens to some thousands of characters -------------------------------


def _prose(choose: _Choice, language: str) -> str:
    words, between, ends = _WORDS[language]
    sentences = []
    for _ in range(choose.between(2, 8)):
        sentence = between.join(choose.many(words, choose.between(3, 18)))
        sentences.append((sentence[:1].upper() + sentence[1:] if between else sentence) + choose.of(ends))
    return "".join(sentences)


def _any_prose(choose: _Choice) -> str:
    return _prose(choose, choose.of(_LANGUAGES))


def _python(choose: _Choice) -> str:
    a, b, c, d = choose.many(_NAMES, 4)
    indent = choose.of(("    ", "    ", "  ", "\t"))
    lines = [
        f"def {a}({b}: int = {choose.below(1000)}, *, {c}: str | None = None) -> list[{d.title()}]:",
        f'{indent}"""{_prose(choose, "english").strip()}"""',
        f"{indent}if {c} is not None and {b} >= {choose.below(10**6)}:",
        f"{indent * 2}return [{d}.{a}({b} % {choose.below(97) + 1}) for {d} in {c}.split('{choose.of((',', ' ', '/'))}')]",
        f"{indent}# {choose.of(('TODO:', 'why:', 'NOTE'))} {_any_prose(choose).strip()[:80]!r}",
        f"{indent}{b} += {choose.random():.6f}; {c}[{choose.below(9)}:{choose.below(99)}] = b'\\x{choose.below(256):02x}'",
        f"{indent}return {a}.{b}[{c!r}] or {{'{d}': [{choose.below(99)}, -{choose.below(9)}e-{choose.below(12)}]}}",
    ]
    return "\n".join(lines) + "\n" * choose.between(1, 3)


def _braces(choose: _Choice) -> str:
    a, b, c, d = choose.many(_NAMES, 4)
    return choose.of((
        f"export async function {a}({b}: string): Promise<{c.title()}[]> {{\n  const {d} = await fetch(`/api/${{{b}}}?n={choose.below(99)}`);\n"
        f"  if (!{d}.ok) throw new Error('HTTP ' + {d}.status);\n  return (await {d}.json()).map(({c}) => ({{ ...{c}, {a}: {c} ?? null }}));\n}}\n\n",
        f"impl<'a> {a.title()}<'a> {{\n    pub fn {b}(&mut self, {c}: &str) -> Result<u64, Box<dyn Error>> {{\n"
        f"        let {d} = {c}.parse::<u64>()? << {choose.below(32)};\n        Ok({d} ^ 0x{choose.below(1 << 32):x})\n    }}\n}}\n",
        f"static int {a}(const char *{b}, size_t {c})\n{{\n\tfor (size_t i = 0; i < {c}; ++i) {{\n\t\tif ({b}[i] == '\\0') return -{choose.below(9)};\n"
        f"\t}}\n\treturn {c} & ~(size_t){choose.below(255)};\t/* {d} */\r\n}}\n",
        f"SELECT u.{a}, COUNT(*) AS n\nFROM users u LEFT JOIN {b} t ON t.{c} = u.id\nWHERE u.created_at > '20{choose.between(10, 29)}-0{choose.between(1, 9)}-1{choose.below(10)}'"
        f"\n  AND t.{d} IN ({choose.below(999)}, {choose.below(99999)})\nGROUP BY 1 HAVING n > {choose.below(50)};\n",
        f'<div class="{a} {b}" id="{c}-{choose.below(99)}">\n  <a href="https://example.org/{d}?q={choose.below(9999)}&amp;p=1">{_any_prose(choose)[:60]}</a>\n</div>\n',
        f"{a}:\n  - name: {b}\n    image: registry.example.org/{c}:{choose.below(9)}.{choose.below(20)}.{choose.below(9)}\n    env: {{ {d.upper()}: \"{choose.below(10**9)}\" }}\n",
    ))  # fmt: skip


def _value(choose: _Choice, depth: int) -> object:
    kind = choose.below(9 if depth else 6)
    if kind < 2:
        return _any_prose(choose)[: choose.between(3, 120)]
    if kind == 2:
        return choose.between(-10, 10**9)
    if kind == 3:
        return round(choose.random() * 1000, choose.below(9))
    if kind == 4:
        return choose.of((True, False, None, "", [], {}))
    if kind == 5:
        return choose.of(_FILES)
    if kind == 6:
        return [_value(choose, depth - 1) for _ in range(choose.below(5))]
    return {name: _value(choose, depth - 1) for name in choose.many(_NAMES, choose.between(1, 5))}


def _json(choose: _Choice) -> str:
    value = {name: _value(choose, 3) for name in choose.many(_NAMES, choose.between(2, 6))}
    if choose.chance(0.4):
        return json.dumps(value, ensure_ascii=choose.chance(0.3), indent=2) + "\n"
    return json.dumps(value, ensure_ascii=choose.chance(0.3), separators=(",", ":")) + choose.of(("", "\n"))


def _tool_call(choose: _Choice) -> str:
    call = {
        "name": choose.of(_TOOLS),
        "arguments": {"path": choose.of(_FILES), "content": _any_code(choose)[:600]},
    }
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def _log(choose: _Choice) -> str:
    lines = []
    second = choose.below(86_400)
    for _ in range(choose.between(4, 30)):
        second += choose.below(40)
        stamp = f"2026-0{choose.between(1, 9)}-1{choose.below(10)}T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{choose.below(1000):03d}Z"
        level = choose.of(("INFO ", "INFO ", "DEBUG", "WARN ", "ERROR", "\x1b[31mFATAL\x1b[0m"))
        where = f"{choose.of(_NAMES)}.{choose.of(_NAMES)}:{choose.below(900)}"
        what = choose.of((
            f"GET /{choose.of(_NAMES)}/{choose.below(10**6)} {choose.of(('200', '404', '503'))} {choose.random() * 900:.1f}ms ip=10.{choose.below(256)}.{choose.below(256)}.7",
            f"retry {choose.below(5)}/5 after {choose.below(9000)}ms: connection reset by peer",
            f"request_id={''.join(choose.many(_HEX, 32))} tenant={choose.of(_NAMES)}",
            _any_prose(choose).strip()[:90],
        ))  # fmt: skip
        lines.append(f"{stamp} {level} [{where}] {what}")
    return "\n".join(lines) + "\n"


def _diff(choose: _Choice) -> str:
    file = choose.of(_FILES)
    lines = [
        f"diff --git a/{file} b/{file}",
        f"index {''.join(choose.many(_HEX, 7))}..{''.join(choose.many(_HEX, 7))} 100644",
    ]
    lines += [
        f"--- a/{file}",
        f"+++ b/{file}",
        f"@@ -{choose.below(900)},7 +{choose.below(900)},9 @@ def {choose.of(_NAMES)}(",
    ]
    lines += [choose.of(("+", "-", " ", " ")) + line for line in _any_code(choose).splitlines()]
    return "\n".join(lines) + "\n"


def _shell(choose: _Choice) -> str:
    file = choose.of(_FILES)
    listing = "".join(
        f"-rw-r--r--  1 ana  staff {choose.below(10 ** choose.between(1, 8)):>9} Mar {choose.between(1, 28):>2} {choose.below(24):02d}:{choose.below(60):02d} {choose.of(_FILES)}\n"
        for _ in range(choose.between(2, 14))
    )
    return choose.of((
        f"$ ls -la {file}\ntotal {choose.below(5000)}\n{listing}",
        f"$ grep -rn '{choose.of(_NAMES)}' .\n" + "".join(f"{choose.of(_FILES)}:{choose.below(2000)}:        {line}\n" for line in _python(choose).splitlines()),
        f"$ pytest -q {file}\n{'.' * choose.between(1, 200)}F{'.' * choose.below(60)}  [{choose.below(100):>3}%]\n\n{'=' * 30} FAILURES {'=' * 30}\n"
        f"E       AssertionError: assert {choose.below(99)} == {choose.below(99)}\nE        +  where {choose.below(99)} = len({choose.many(_NAMES, 3)})\n",
        f"Traceback (most recent call last):\n  File \"{file}\", line {choose.below(999)}, in {choose.of(_NAMES)}\n    {choose.of(_NAMES)}({choose.of(_NAMES)}=None)\n"
        f"    ~~~~^^^^^^^^^^\nValueError: {_any_prose(choose).strip()[:100]}\n",
        f"Downloading {choose.of(_NAMES)}-{choose.below(9)}.{choose.below(99)}-py3-none-any.whl ({choose.random() * 90:.1f} MB)\n"
        + "".join(f"\r   {'━' * k}{' ' * (40 - k)} {k * 2.5:.0f}%" for k in range(0, 41, 8)) + "\n",
    ))  # fmt: skip


def _table(choose: _Choice) -> str:
    heads = choose.many(_NAMES, choose.between(2, 5))
    rows = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for _ in range(choose.between(2, 10)):
        rows.append("| " + " | ".join(choose.of((f"{choose.random() * 1000:.3f}", f"{choose.below(10**7):,}", _any_prose(choose)[:15].strip(), "")) for _ in heads) + " |")  # fmt: skip
    return f"{'#' * choose.between(1, 4)} {_any_prose(choose).strip()[:40]}\n\n" + "\n".join(rows) + "\n\n"


def _unbroken(choose: _Choice) -> str:
    count = choose.between(20, 700)
    return choose.of((
        "".join(choose.many(_BASE64, count)) + "==\n",
        "".join(choose.many(_HEX, count)),
        "".join(choose.many("0123456789", count)),
        choose.of(("=", "-", "*", " ", "\n", "\t", "~", "━", "a", "。", " \n", "\r\n", "\u3000", "e\u0301")) * (count // 4),
        ",".join(f"{choose.below(10**4)}" for _ in range(count // 6)),
    ))  # fmt: skip


def _any_code(choose: _Choice) -> str:
    return _python(choose) if choose.chance(0.5) else _braces(choose)


@cache
def _library() -> tuple[str, ...]:
    """Functions and classes of the installed standard library."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for block in re.split(r"^(?=(?:async )?def |class |@|    def )", text, flags=re.M):
            if 40 < len(block) < 20_000:
                found[block] = None
    return tuple(found)


def _real_code(choose: _Choice) -> str:
    return choose.of(_library() or ("",))


Passage = Callable[[_Choice], str]
_PASSAGES: tuple[Passage, ...] = (
    *(_any_prose, _any_prose, _any_prose, _python, _python, _braces, _json, _json, _tool_call, _tool_call),
    *(_log, _log, _diff, _shell, _shell, _table, _unbroken),
)
_WITH_LIBRARY: tuple[Passage, ...] = (*_PASSAGES, _real_code, _real_code, _real_code, _real_code)


def _passage(choose: _Choice, size: int, kinds: Sequence[Passage]) -> str:
    """Exactly ``size`` characters, mostly of one kind, sometimes of several."""
    parts: list[str] = []
    have = 0
    kind = choose.of(kinds)
    while have < size:
        part = kind(choose)
        parts.append(part)
        have += len(part)
        if choose.chance(0.25):
            kind = choose.of(kinds)
    return "".join(parts)[:size]


# --- histories ----------------------------------------------------------------------------------------


def steps(
    seed: int,
    kind: Kind = "agent",
    *,
    form: str = "chatml",
    median: float = 1_400,
    largest: int = 200_000,
    context: int = 2_000_000,
    library: bool = False,
) -> Iterator[Step]:
    """An endless history of changes, beginning with an empty transcript.

    ``kind``
        ``"append"``: text is only ever added.  ``"chat"``: also, at most calls, the generation prompt gives way
        to the turn that it asked for, and a new one comes after the next message.  ``"agent"``: also edits in
        the middle (3 in 100 changes) and branches (2 in 100).
    ``form``
        How turns are written, one of :data:`FORMS`.
    ``median``, ``largest``
        Of the number of characters that a change brings, see :data:`SIZES`.
    ``context``
        A transcript that has grown beyond so many characters is compacted; where ``kind`` is ``"append"``, the
        history ends there instead.
    ``library``
        Put functions of the installed standard library among the code.
    """
    if kind not in ("append", "chat", "agent"):
        raise ValueError(f'kind must be "append", "chat" or "agent", not {kind!r}')
    return _history(
        _Choice(seed), kind, FORMS[form], median, largest, context, _WITH_LIBRARY if library else _PASSAGES
    )


def _history(
    choose: _Choice, kind: Kind, form: Form, median: float, largest: int, context: int, kinds: Sequence[Passage]
) -> Iterator[Step]:
    length = 0
    turns: list[int] = []  # where turns begin
    asked: int | None = None  # where the generation prompt begins

    def turn(role: str, size: int) -> str:
        opening = form.opening.format(role=role)
        return opening + _passage(choose, max(1, size - len(opening) - len(form.closing)), kinds) + form.closing

    while True:
        size = choose.size(median, largest)
        change: Change = "append"
        start = stop = length
        role = choose.of(("user", "assistant", "tool")) if length else "system"
        if length > context and kind != "append":
            change, start, role = "compact", turns[min(1, len(turns) - 1)], "user"
        elif length and kind == "agent" and choose.chance(0.03):
            change, start = "edit", choose.below(length)
            stop = min(length, start + choose.below(200))
        elif len(turns) > 2 and kind == "agent" and choose.chance(0.02):
            change, start, role = "branch", choose.of(turns[1:]), "user"
        elif length and size < median / 20:
            yield Step(change, start, stop, _passage(choose, size, kinds))  # output, streamed
            length += size
            continue
        elif asked is not None:
            change, start = "replace_tail", asked

        if change == "edit":
            text = _passage(choose, min(size, choose.between(1, 300)), kinds)
            shift = len(text) - (stop - start)
            turns = [at + shift if at > start else at for at in turns if not start < at < stop]
            if asked is not None and asked > start:
                asked = max(start, asked + shift)
        elif change == "replace_tail":
            reply = int(size * choose.random())
            text = turn("assistant", reply) + turn(choose.of(("tool", "tool", "user")), size - reply)
        else:
            text = turn(role, size)
        if change != "edit":
            turns = [*(at for at in turns if at < start), start]
            asked = None
            if kind != "append":
                asked = start + len(text)
                text += form.generation
        yield Step(change, start, stop, text)
        length += len(text) - (stop - start)
        if length > context and kind == "append":
            return


def transcript(seed: int, characters: int, *, form: str = "chatml", library: bool = False) -> str:
    """A transcript of exactly so many characters, grown turn by turn."""
    parts: list[str] = []
    have = 0
    for step in steps(seed, "append", form=form, context=characters, library=library):
        parts.append(step.text)
        have += len(step.text)
        if have >= characters:
            break
    return "".join(parts)[:characters]
