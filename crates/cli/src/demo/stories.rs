//! What the demo's sessions are about. Each has its own subject, and the people in them have no names.

use sederunt::{SessionType, Status};

/// A piece of work and how it goes. `{n}` is replaced by the number of the run.
#[derive(Debug)]
pub struct Story {
    pub title: &'static str,
    pub steps: &'static [Step],
    pub result: &'static str,
    /// Tokens read and written.
    pub tokens: (u32, u32),
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

/// How a run of the first filling ends.
#[derive(Clone, Copy, Debug)]
pub enum StoryEnd {
    Completed,
    Failed(&'static str),
    AsksAPerson(&'static str),
    AwaitsATool { tool: &'static str, what: &'static str },
}

use Step::{Asks, Calls, Gets, Says, Thinks};

/// What the worker does over and over.
pub const ROUNDS: &[Story] = &[
    Story {
        title: "Sort support ticket {n}",
        steps: &[
            Calls { id: "call_1", tool: "read_ticket", text: "ticket {n}" },
            Gets { id: "call_1", tool: "read_ticket", text: "The import of a spreadsheet stops at row 500." },
            Thinks("Known since the last release: it belongs to the import team."),
            Says("Ticket {n} is a repeat of a known fault; I linked it and told the import team."),
        ],
        result: "Ticket {n}: known fault, linked",
        tokens: (1_120, 96),
    },
    Story {
        title: "Check invoice {n} against its delivery",
        steps: &[
            Calls { id: "call_1", tool: "find_invoice", text: "invoice {n}" },
            Gets { id: "call_1", tool: "find_invoice", text: "10 boxes of paper" },
            Calls { id: "call_2", tool: "find_delivery", text: "for invoice {n}" },
            Gets { id: "call_2", tool: "find_delivery", text: "10 boxes of paper, signed for" },
            Says("Invoice {n} agrees with what was delivered."),
        ],
        result: "Invoice {n} can be paid",
        tokens: (1_480, 61),
    },
    Story {
        title: "Answer the question about order {n}",
        steps: &[
            Calls { id: "call_1", tool: "track_order", text: "order {n}" },
            Gets { id: "call_1", tool: "track_order", text: "left the depot this morning" },
            Thinks("The customer asked for a day, not for a place."),
            Says("Your order {n} left the depot this morning and should arrive tomorrow."),
        ],
        result: "Order {n}: answered",
        tokens: (890, 74),
    },
];

/// Work that waits for an agent which no worker runs.
pub const QUEUED: &[&str] = &[
    "Summarise yesterday's support tickets", "Draft release notes for version 1.9",
    "Compare three offers for the new roof",
];

/// Work that was run, and how it ended.
pub const RUNS: &[(SessionType, Story, StoryEnd)] = &[
    (
        SessionType::Agent,
        Story {
            title: "Sort the inbox of last week",
            steps: &[
                Calls { id: "call_1", tool: "list_mail", text: "last week, unread" },
                Gets { id: "call_1", tool: "list_mail", text: "86 messages" },
                Thinks("Newsletters first: they need nobody."),
                Says("54 messages are archived, 29 are filed, 3 wait for an answer."),
            ],
            result: "3 of 86 messages need an answer",
            tokens: (6_310, 402),
        },
        StoryEnd::Completed,
    ),
    (
        SessionType::Agent,
        Story {
            title: "Find out who sells oak shelves",
            steps: &[
                Thinks("Two metres long and in stock within a month."),
                Calls { id: "call_1", tool: "web_search", text: "oak shelf 200 cm supplier" },
            ],
            result: "",
            tokens: (0, 0),
        },
        StoryEnd::Failed("the search did not answer in time"),
    ),
    (
        SessionType::Agent,
        Story {
            title: "Reconcile November's invoices",
            steps: &[
                Calls { id: "call_1", tool: "list_invoices", text: "November, unpaid" },
                Gets { id: "call_1", tool: "list_invoices", text: "17 invoices" },
                Calls { id: "call_2", tool: "find_delivery", text: "order 2291" },
                Gets { id: "call_2", tool: "find_delivery", text: "8 of 10 boxes delivered" },
                Says("15 invoices agree with their deliveries. Two ask for more than came."),
            ],
            result: "",
            tokens: (0, 0),
        },
        StoryEnd::AsksAPerson("Two invoices disagree with their deliveries. Pay them anyway?"),
    ),
    (
        SessionType::Agent,
        Story {
            title: "Tell customers about the new opening hours",
            steps: &[
                Calls { id: "call_1", tool: "list_customers", text: "who visited this year" },
                Gets { id: "call_1", tool: "list_customers", text: "312 addresses" },
                Says("The letter is written. Sending it to 312 addresses needs your consent."),
            ],
            result: "",
            tokens: (0, 0),
        },
        StoryEnd::AwaitsATool { tool: "send_mail", what: "opening hours, to 312 customers" },
    ),
    (
        SessionType::Agent,
        Story {
            title: "Price of forty desks with delivery",
            steps: &[
                Calls { id: "call_1", tool: "price_list", text: "desk, 40 pieces" },
                Gets { id: "call_1", tool: "price_list", text: "129 each, 4 % off from 25 pieces" },
            ],
            result: "4,953.60 and 180 for delivery",
            tokens: (310, 28),
        },
        StoryEnd::Completed,
    ),
    (
        SessionType::Response,
        Story {
            title: "Autumn customer survey, handed in",
            steps: &[Says("Nine of ten questions answered; the free text praises the repair desk.")],
            result: "9 of 10 questions answered",
            tokens: (640, 35),
        },
        StoryEnd::Completed,
    ),
    (
        SessionType::Mixed,
        Story {
            title: "Rewrite the privacy page",
            steps: &[
                Thinks("Short sentences; what is kept, why, and for how long."),
                Says("Here is a draft of half a page. The old one had four."),
            ],
            result: "A draft of half a page",
            tokens: (2_870, 640),
        },
        StoryEnd::Completed,
    ),
];

/// Sessions that were never started.
pub const DRAFTS: &[(SessionType, &str)] = &[
    (SessionType::Agent, "Translate the handbook into Gaelic"),
    (SessionType::Response, "Autumn customer survey, just opened"),
    (SessionType::Tool, "Price of a garden shed"),
];

/// Sessions that ended before anything was done, and why.
pub const ENDED: &[(SessionType, &str, Status, &str)] = &[
    (SessionType::Response, "Autumn customer survey, left early", Status::Abandoned, "the page was closed"),
    (SessionType::Agent, "Report on last year's travel costs", Status::Expired, "nobody started it in time"),
    (SessionType::Tool, "Price of two hundred chairs", Status::Abandoned, "the order was withdrawn"),
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

/// Live talk, with an assistant that runs elsewhere.
pub const LIVE: (&str, &[Step]) = (
    "Where is my parcel?",
    &[Asks("It should have been here on Tuesday."), Thinks("Ask the carrier before promising anything.")],
);
