//! What the demo's sessions are about.

/// A piece of work and how it goes.
#[derive(Debug)]
pub struct Story {
    pub title: &'static str,
    pub steps: &'static [Step],
    pub result: &'static str,
}

/// One event of a log.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Thinks(&'static str),
    Calls { id: &'static str, tool: &'static str, text: &'static str },
    Gets { id: &'static str, tool: &'static str, text: &'static str },
    Says(&'static str),
    Asks(&'static str),
}

use Step::{Asks, Calls, Gets, Says, Thinks};

/// Work for an agent.
pub const STORIES: &[Story] = &[
    Story {
        title: "Summarise yesterday's support tickets",
        steps: &[
            Thinks("Group the tickets by product first, then count."),
            Calls { id: "call_1", tool: "search_tickets", text: "yesterday, all products" },
            Gets { id: "call_1", tool: "search_tickets", text: "42 tickets in 5 products" },
            Says("Most of the 42 tickets concern the import of spreadsheets."),
            Says("Three customers reported the same time-out; I linked their tickets."),
        ],
        result: "42 tickets, 3 of them urgent",
    },
    Story {
        title: "Check invoices against delivery notes",
        steps: &[
            Calls { id: "call_1", tool: "list_invoices", text: "November, unpaid" },
            Gets { id: "call_1", tool: "list_invoices", text: "17 invoices" },
            Thinks("Two of them name a quantity that was never delivered."),
            Calls { id: "call_2", tool: "find_delivery", text: "order 2291" },
            Gets { id: "call_2", tool: "find_delivery", text: "8 of 10 boxes delivered" },
            Says("Invoice 2291 asks for 10 boxes; 8 were delivered."),
        ],
        result: "15 invoices agree, 2 do not",
    },
    Story {
        title: "Draft release notes from merged changes",
        steps: &[
            Calls { id: "call_1", tool: "list_changes", text: "since 1.8.0" },
            Gets { id: "call_1", tool: "list_changes", text: "23 changes by 6 people" },
            Says("I sorted the changes into new, better and repaired."),
            Says("One change alters a default; it stands first."),
        ],
        result: "Release notes for 1.9.0",
    },
];

/// Talk between a person and an assistant.
pub const TALKS: &[(&str, &[Step])] = &[
    (
        "Plan the office move",
        &[
            Asks("We move on the 12th. What has to be done first?"),
            Says("Cancel the old internet line: it has the longest notice."),
            Asks("And the furniture?"),
            Says("Order the desks this week; they take ten days."),
        ],
    ),
    (
        "Why did the nightly import stop?",
        &[
            Asks("The import did not run last night. Can you see why?"),
            Says("The disk of the import machine was full at 02:14."),
        ],
    ),
];
