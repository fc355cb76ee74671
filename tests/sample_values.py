"""One set of values for every template of `prompts/`, for the tests and the check of a wheel."""

from __future__ import annotations

from typing import Any

SAMPLES: dict[str, dict[str, Any]] = {
    "constrained/result": {"tool": "weather", "text": "sunny"},
    "constrained/tools": {
        "tools": [
            {
                "name": "weather",
                "description": "Today's weather in a city.",
                "parameters": '{"type": "object", "properties": {"city": {"type": "string"}}}',
            }
        ],
        "speech": True,
    },
    "events/outcome": {
        "id": "call-1",
        "tool": "mail",
        "happened": True,
        "by": "Lin",
        "note": "The mail has arrived.",
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
        "reply_tool": True,
    },
    "events/approval": {
        "id": "approval-1",
        "tool": "mail",
        "decision": "denied",
        "by": "Lin",
        "reason": "Not to strangers.",
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
        "reply_tool": True,
    },
    "events/approved_call": {
        "id": "approval-1",
        "tool": "mail",
        "status": "ok",
        "result": "sent to lin@example.org",
        "reply_tool": True,
    },
    "events/file": {"name": "notes.md", "text": "# Küste\nFlut um neun."},
    "events/heartbeat": {
        "reason": "requested",
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
        "tools": ["weather", "wetter_für_morgen"],
        "reply_tool": True,
    },
    "events/mail": {
        "name": "Bob",
        "text": "",
        "kind": "answer",
        "stopped": "max_steps",
    },
    "events/mail_note": {"name": "Bob", "kind": "question", "reply_tool": True},
    "events/picture": {"name": "sea shore.jpg", "width": 640, "height": 480},
    "events/invalid_reply": {
        "problems": ["lines.0.amount: Input should be a valid number"],
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
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
    "events/recollections": {
        "hits": [
            {
                "ref": "#12",
                "date": "2026-11-28",
                "who": "Mai",
                "document": None,
                "position": None,
                "source": "user",
                "text": "The key is under the blue pot.\nSecond line",
            }
        ]
    },
    "events/reply_format": {
        "schema": '{"type":"integer"}',
        "reply_tool": True,
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
    "events/timer": {
        "id": "schedule-1",
        "note": "Ask Lin how the flat hunt went.",
        "due": "Monday 2026-11-30 15:53:00 +09:00 (Asia/Tokyo)",
        "time": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)",
        "every_seconds": 3600.0,
        "missed": 2,
        "late": True,
        "by": "agent",
        "reply_tool": True,
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
    "results/archived": {
        "id": "passage-4",
        "existing": False,
        "near": [
            {"id": "passage-3", "text": "Lin cannot eat peanuts."},
            {"id": "passage-1", "text": "Lin is allergic to peanuts."},
        ],
        "more": 1,
    },
    "results/awaiting_approval": {"tool": "mail", "id": "approval-1"},
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
    "results/mailed": {"name": "Bob", "answer": True},
    "results/messages": {
        "query": "blue pot",
        "timezone": "Asia/Tokyo",
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
    "results/not_delivered": {},
    "results/not_granted": {"tool": "mail", "why": "missing"},
    "results/not_found": {"what": "message", "id": "message-9"},
    "results/not_allowed": {
        "tool": "mail",
        "rules": [
            {"rule": "first", "tool": "load"},
            {"rule": "at_most", "tool": "mail", "calls": 1},
            {"rule": "terminal", "tool": "mail"},
        ],
        "allowed": [],
        "due": ["archival_memory_insert"],
        "waiting": True,
    },
    "results/interrupted": {"tool": "weather"},
    "results/not_run": {"tool": "weather"},
    "results/nothing_found": {
        "query": "blue pot",
        "total_searched": 120,
        "filters": ["roles"],
        "pending": 7,
    },
    "results/page": {"ref": "message-1", "page": 0, "pages": 12, "text": "It begins"},
    "results/paged_out": {"messages": 20, "through": 22},
    "results/past_the_end": {"query": "blue pot", "page": 3, "total": 12, "last_page": 2},
    "results/passages": {
        "query": "blue pot",
        "timezone": "Asia/Tokyo",
        "hits": [
            {
                "id": "passage-1",
                "date": "2026-11-28",
                "kept": "2026-11-30",
                "tags": ["house", "keys"],
                "source": "tool",
                "document": "house.md",
                "position": 3,
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
    "results/timer_cancelled": {"id": "schedule-1"},
    "results/timer_set": {
        "timer": {
            "id": "schedule-1",
            "note": "Ask Lin how the flat hunt went.",
            "due": "Monday 2026-11-30 15:53:00 +09:00 (Asia/Tokyo)",
            "every_seconds": 3600.0,
            "by": "agent",
        }
    },
    "results/timers": {
        "timers": [
            {
                "id": "schedule-1",
                "note": "Ask Lin how the flat hunt went.",
                "due": "Monday 2026-11-30 15:53:00 +09:00 (Asia/Tokyo)",
                "every_seconds": 3600.0,
                "by": "agent",
            }
        ]
    },
    "results/timers_paused": {"until": "Monday 2026-11-30 15:53:31 +09:00 (Asia/Tokyo)"},
    "results/unknown": {"tool": "weather", "problem": None, "detail": ""},
    "results/unknown_tool": {"tool": "wether", "tools": ["weather", "send_message"]},
    "results/unreadable_arguments": {
        "tool": "weather",
        "error": "it ends inside a string",
        "excerpt": '{"city": "Ro',
    },
    "summary/carried": {
        "conversations": [
            {
                "name": "main",
                "date": "2026-11-28",
                "summary": "Lin lives in Rome.",
                "lines": ["user: We ship on Thursdays."],
            },
            {"name": "Büro", "date": "2026-11-27", "summary": "The harbour is deep.", "lines": []},
        ]
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
    "system/rules": {
        "rules": [
            {"rule": "first", "tool": "load"},
            {"rule": "after", "tool": "search", "then": ["fetch", "send_message"]},
            {
                "rule": "conditional",
                "tool": "classify",
                "cases": {"spam": ["bin"]},
                "default": ["answer"],
                "field": "kind",
            },
            {"rule": "at_most", "tool": "mail", "calls": 1},
            {"rule": "terminal", "tool": "send_message"},
            {"rule": "required", "tool": "archival_memory_insert"},
            {"rule": "needs_approval", "tool": "mail"},
        ]
    },
    "tools/archival_memory_insert": {},
    "tools/archival_memory_search": {},
    "tools/cancel_timer": {},
    "tools/conversation_search": {},
    "tools/conversation_search_date": {},
    "tools/core_memory_append": {},
    "tools/core_memory_replace": {},
    "tools/inner_thoughts": {},
    "tools/list_timers": {},
    "tools/memory_insert": {},
    "tools/memory_replace": {},
    "tools/memory_rethink": {},
    "tools/page_out": {},
    "tools/pause_heartbeats": {},
    "tools/pin": {},
    "tools/read_page": {},
    "tools/request_heartbeat": {},
    "tools/send_message": {},
    "tools/send_message_to_agent": {},
    "tools/set_timer": {},
}
