"""One set of values for every template of `prompts/`, for the tests and the check of a wheel."""

from __future__ import annotations

from typing import Any

SAMPLES: dict[str, dict[str, Any]] = {
    "events/heartbeat": {
        "reason": "requested",
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
        "tools": ["weather", "wetter_für_morgen"],
        "reply_tool": True,
    },
    "events/pressure": {
        "percent": 71.4,
        "evict_percent": 90,
        "messages": 40,
        "oldest": 3,
        "newest": 42,
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
    },
    "events/status": {
        "number": 12,
        "author": "Mai",
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
        "recall_count": 120,
        "archival_count": 14,
        "blocks": [["persona", 312, 4000], ["human", 44, 4000]],
        "percent": 22.6,
    },
    "events/summary": {
        "text": "Lin lives in Rome.",
        "messages": 23,
        "first_date": "2026-11-01",
        "last_date": "2026-11-28",
        "by": "model",
    },
    "offline/about": {},
    "offline/answer": {"lines": ["Name: Lin"]},
    "offline/done": {"paged": True},
    "offline/found": {
        "place": "conversation",
        "hits": [{"date": "2026-11-28", "text": "The key is under the blue pot."}],
    },
    "offline/heard": {},
    "offline/hello": {"name": "Lin"},
    "offline/kept": {
        "saved": ["Name: Lin."],
        "archived": [],
        "known": ["Lives in: Rome."],
        "refused": [],
    },
    "offline/notes": {"lines": ["We ship on Thursdays."]},
    "offline/nothing": {"places": ["conversation", "archive"]},
    "offline/page_note": {"lines": ["We ship on Thursdays."]},
    "offline/thoughts": {"doing": "save"},
    "results/archived": {"id": "passage-1", "existing": False},
    "results/bad_arguments": {
        "tool": "weather",
        "problems": ["city: missing"],
        "shape": '{"city": text}',
    },
    "results/digest": {
        "ref": "message-1",
        "what": "result",
        "chars": 48000,
        "pages": 12,
        "head": "It begins",
        "tail": "it ends",
    },
    "results/edit_refused": {
        "reason": "not_found",
        "label": "human",
        "current": "Name: Lin\nLives in: Rome",
        "nearest": ["Lives in: Rome"],
        "limit": 4000,
        "size": 25,
        "labels": ["persona", "human"],
    },
    "results/edited": {
        "label": "human",
        "size": 44,
        "limit": 4000,
        "version": 3,
        "operation": "append",
    },
    "results/empty": {"tool": "weather"},
    "results/failed": {"tool": "weather", "error": "ValueError: no such city"},
    "results/messages": {
        "query": "blue pot",
        "hits": [
            {
                "ref": "12",
                "date": "2026-11-28 10:00",
                "who": "user",
                "text": "The key is under the blue pot.\nSecond line",
            }
        ],
        "first": 1,
        "total": 6,
        "next_page": 1,
    },
    "results/missing_tool": {"tool": "weather"},
    "results/not_found": {"what": "message", "id": "message-9"},
    "results/not_run": {"tool": "weather"},
    "results/nothing_found": {"query": "blue pot", "total_searched": 120},
    "results/page": {"ref": "message-1", "page": 0, "pages": 12, "text": "It begins"},
    "results/paged_out": {"messages": 20, "through": 22},
    "results/passages": {
        "query": "blue pot",
        "hits": [
            {
                "id": "passage-1",
                "date": "2026-11-28",
                "tags": ["house", "keys"],
                "source": "message 12",
                "text": "The key is under the blue pot.\nSecond line",
            }
        ],
        "first": 1,
        "total": 1,
        "next_page": None,
    },
    "results/pinned": {"ref": "12", "pinned": True},
    "results/refused": {"message": "start_date must be written as YYYY-MM-DD."},
    "results/sent": {},
    "results/timeout": {"tool": "weather", "seconds": 60, "unknown": True},
    "results/unknown": {"tool": "weather"},
    "results/unknown_tool": {"tool": "wether", "tools": ["weather", "send_message"]},
    "results/unreadable_arguments": {
        "tool": "weather",
        "error": "it ends inside a string",
        "excerpt": '{"city": "Ro',
    },
    "summary/digest": {
        "previous": "Lin lives in Rome.",
        "lines": ["user: We ship on Thursdays."],
        "messages": 5,
    },
    "summary/identifiers": {"identifiers": ["ORD-4711", "lin@example.org"]},
    "summary/request": {
        "previous": "Lin lives in Rome.",
        "transcript": "#12 2026-11-28 user: We ship on Thursdays.",
        "max_words": 120,
    },
    "summary/system": {},
    "summary/transcript": {
        "entries": [
            {
                "number": 12,
                "date": "2026-11-28",
                "who": "user",
                "text": "We ship on Thursdays.\nAnd test on Mondays.",
            }
        ]
    },
    "system/blocks": {
        "blocks": [
            {
                "id": "block-1",
                "label": "human",
                "description": "Whom I talk to",
                "value": "Name: Lin",
                "limit": 4000,
                "size": 9,
                "read_only": True,
                "mark": "[/block-1]",
            }
        ]
    },
    "system/memgpt": {"agent_name": "Ada", "tool_set": "memgpt", "heartbeats": "assisted"},
    "system/native": {"agent_name": "Ada", "tool_set": "edit", "heartbeats": "strict"},
    "system/rules": {"required_tools": ["archival_memory_insert", "send_message"]},
    "tools/archival_memory_insert": {},
    "tools/archival_memory_search": {},
    "tools/conversation_search": {},
    "tools/conversation_search_date": {},
    "tools/core_memory_append": {},
    "tools/core_memory_replace": {},
    "tools/inner_thoughts": {},
    "tools/memory_insert": {},
    "tools/memory_replace": {},
    "tools/memory_rethink": {},
    "tools/page_out": {},
    "tools/pin": {},
    "tools/read_page": {},
    "tools/request_heartbeat": {},
    "tools/send_message": {},
}
