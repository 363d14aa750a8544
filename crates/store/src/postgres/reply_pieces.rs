//! The text of unfinished replies, on its way from the node that runs them to the nodes with readers.
//!
//! It goes through an unlogged table under row-level security, because every login of the database hears a
//! notification. The writing node adds pieces in batches and deletes them when the reply is finished. Pieces of a
//! node that died are deleted by age. See `migrations/V14__reply_pieces.sql`.

use std::collections::HashMap;

use futures_util::future::join4;
use sederunt_core::ids::{Incarnation, TenantId};
use sederunt_core::live::Delta;
use uuid::Uuid;

use super::fault::Result;
use super::notify::channel;
use super::tx::{Context, Scope, int, within};

/// How long a piece stays that its node did not delete. A reader that joins a longer reply gets its end only.
const KEPT_MINUTES: i32 = 15;
/// A reply whose newest piece is this old has paused; a finished one would be deleted by now.
const PAUSED_SECONDS: i32 = 3;

/// Text that a node has written for the others, as it announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnnouncedText {
    pub(super) incarnation: Incarnation,
    pub(super) tk: i32,
    pub(super) epoch: u64,
    /// Where in the reply the announced text begins, in bytes.
    pub(super) offset: usize,
    /// The number of the reply's first piece, and those of the first and the last that are announced.
    pub(super) reply: i64,
    pub(super) first: i64,
    pub(super) last: i64,
}

/// A piece as it is written.
#[derive(Clone, Debug)]
pub(super) struct ReplyPiece {
    tk: i32,
    n: i64,
    delta: Delta,
}

/// The last piece of a reply that is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinishedReply {
    tk: i32,
    incarnation: Incarnation,
    last: i64,
}

#[derive(Debug)]
struct OpenReply {
    tk: i32,
    epoch: u64,
    reply: i64,
    last: i64,
    /// Where the next piece must begin.
    end: usize,
}

/// The unfinished replies of this node. Numbers their pieces.
#[derive(Debug, Default)]
pub(super) struct ReplyLedger {
    open: HashMap<Incarnation, OpenReply>,
    numbered: i64,
}

impl ReplyLedger {
    pub(super) fn add(&mut self, tk: i32, delta: Delta) -> (ReplyPiece, AnnouncedText) {
        self.numbered += 1;
        let (n, end) = (self.numbered, delta.offset + delta.text.len());
        let reply = self.open.entry(delta.incarnation).or_insert(OpenReply {
            tk,
            epoch: delta.epoch,
            reply: n,
            last: n,
            end: delta.offset,
        });
        if reply.epoch != delta.epoch || reply.end != delta.offset {
            (reply.epoch, reply.reply) = (delta.epoch, n);
        }
        (reply.last, reply.end) = (n, end);
        let announced = AnnouncedText {
            incarnation: delta.incarnation,
            tk,
            epoch: delta.epoch,
            offset: delta.offset,
            reply: reply.reply,
            first: n,
            last: n,
        };
        (ReplyPiece { tk, n, delta }, announced)
    }

    pub(super) fn finish(&mut self, incarnation: Incarnation) -> Option<FinishedReply> {
        let reply = self.open.remove(&incarnation)?;
        Some(FinishedReply { tk: reply.tk, incarnation, last: reply.last })
    }
}

/// Writes pieces and notifies the other nodes, in one transaction and one round trip.
pub(super) async fn write(
    context: &Context,
    node: Uuid,
    pieces: &[ReplyPiece],
    payloads: &[String],
) -> Result<()> {
    let tks: Vec<i32> = pieces.iter().map(|piece| piece.tk).collect();
    let incarnations: Vec<Uuid> = pieces.iter().map(|piece| piece.delta.incarnation.0).collect();
    let numbers: Vec<i64> = pieces.iter().map(|piece| piece.n).collect();
    let epochs: Vec<i64> = pieces.iter().map(|piece| int(piece.delta.epoch)).collect();
    let offsets: Vec<i64> = pieces.iter().map(|piece| int(piece.delta.offset as u64)).collect();
    let texts: Vec<&[u8]> = pieces.iter().map(|piece| piece.delta.text.as_bytes()).collect();
    within(async {
        let client = context.scan.get().await?;
        let insert = client
            .prepare_cached(
                "INSERT INTO reply_pieces (tk, incarnation, node, n, epoch, start_at, text)
                 SELECT tk, incarnation, $1, n, epoch, start_at, text
                 FROM unnest($2::integer[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[])
                     AS p (tk, incarnation, n, epoch, start_at, text)",
            )
            .await?;
        let notify =
            client.prepare_cached("SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload").await?;
        let begin = Scope::Relay(&tks).begin("", &context.schema);
        let channel = channel(&context.schema);
        let values: [super::tx::Param<'_>; 7] =
            [&node, &tks, &incarnations, &numbers, &epochs, &offsets, &texts];
        let (begun, written, told, ended) = join4(
            client.batch_execute(&begin),
            client.execute(&insert, &values),
            client.query(&notify, &[&channel, &payloads]),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        written?;
        told?;
        ended?;
        Ok(())
    })
    .await
}

/// Reads the announced pieces of a node, in order.
pub(super) async fn read(context: &Context, node: Uuid, wanted: &[AnnouncedText]) -> Result<Vec<Delta>> {
    let tks: Vec<i32> = wanted.iter().map(|one| one.tk).collect();
    let incarnations: Vec<Uuid> = wanted.iter().map(|one| one.incarnation.0).collect();
    let firsts: Vec<i64> = wanted.iter().map(|one| one.first).collect();
    let lasts: Vec<i64> = wanted.iter().map(|one| one.last).collect();
    let sql = "SELECT p.incarnation, p.epoch, p.start_at, p.text
         FROM unnest($2::integer[], $3::uuid[], $4::bigint[], $5::bigint[]) AS w (tk, incarnation, first, last)
         JOIN reply_pieces p ON p.tk = w.tk AND p.incarnation = w.incarnation AND p.node = $1
             AND p.n BETWEEN w.first AND w.last
         ORDER BY p.n";
    let rows = context.read(Scope::Relay(&tks), sql, &[&node, &tks, &incarnations, &firsts, &lasts]).await?;
    deltas(&rows)
}

/// The text of paused replies, for readers that came after the last piece.
pub(super) async fn paused(context: &Context, asked: &[(i32, Incarnation)]) -> Result<Vec<Delta>> {
    let tks: Vec<i32> = asked.iter().map(|(tk, _)| *tk).collect();
    let incarnations: Vec<Uuid> = asked.iter().map(|(_, incarnation)| incarnation.0).collect();
    let sql = "SELECT p.incarnation, p.epoch, p.start_at, p.text
         FROM unnest($1::integer[], $2::uuid[]) AS w (tk, incarnation)
         JOIN reply_pieces p ON p.tk = w.tk AND p.incarnation = w.incarnation
         WHERE NOT EXISTS (SELECT 1 FROM reply_pieces y WHERE y.tk = w.tk AND y.incarnation = w.incarnation
             AND y.at > clock_timestamp() - make_interval(secs => $3::integer))
         ORDER BY p.incarnation, p.epoch, p.n";
    let rows = context.read(Scope::Relay(&tks), sql, &[&tks, &incarnations, &PAUSED_SECONDS]).await?;
    deltas(&rows)
}

fn deltas(rows: &[tokio_postgres::Row]) -> Result<Vec<Delta>> {
    rows.iter()
        .map(|row| {
            Ok(Delta {
                incarnation: Incarnation(row.try_get(0)?),
                epoch: super::tx::count(row.try_get(1)?),
                offset: usize::try_from(row.try_get::<_, i64>(2)?).unwrap_or(0),
                text: String::from_utf8_lossy(row.try_get(3)?).into(),
            })
        })
        .collect()
}

/// Deletes the pieces of finished replies.
pub(super) async fn remove(context: &Context, node: Uuid, finished: &[FinishedReply]) -> Result<()> {
    if finished.is_empty() {
        return Ok(());
    }
    let tks: Vec<i32> = finished.iter().map(|one| one.tk).collect();
    let incarnations: Vec<Uuid> = finished.iter().map(|one| one.incarnation.0).collect();
    let lasts: Vec<i64> = finished.iter().map(|one| one.last).collect();
    let sql = "DELETE FROM reply_pieces p
         USING unnest($2::integer[], $3::uuid[], $4::bigint[]) AS f (tk, incarnation, last)
         WHERE p.tk = f.tk AND p.incarnation = f.incarnation AND p.node = $1 AND p.n <= f.last";
    within(async {
        let tx = context.begin(Scope::Relay(&tks)).await?;
        tx.execute(sql, &[&node, &tks, &incarnations, &lasts]).await?;
        tx.commit().await
    })
    .await
}

/// Deletes pieces that are so old that their node must have died.
pub(super) async fn remove_old(context: &Context) -> Result<()> {
    let sql = "SELECT DISTINCT tk FROM reply_pieces WHERE at < clock_timestamp() - make_interval(mins => $1::integer)";
    let rows = context.read(Scope::All, sql, &[&KEPT_MINUTES]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let tks = rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<i32>, _>>()?;
    within(async {
        let tx = context.begin(Scope::Relay(&tks)).await?;
        let sql =
            "DELETE FROM reply_pieces WHERE at < clock_timestamp() - make_interval(mins => $1::integer)";
        tx.execute(sql, &[&KEPT_MINUTES]).await?;
        tx.commit().await
    })
    .await
}

/// The numbers of tenants with reply text. A removed tenant has none.
pub(super) async fn tenants(
    context: &Context,
    named: impl Iterator<Item = TenantId>,
) -> Result<HashMap<TenantId, i32>> {
    let mut numbers = HashMap::new();
    for tenant in named {
        if !numbers.contains_key(&tenant)
            && let Some(tk) = context.tk(&tenant).await?
        {
            numbers.insert(tenant, tk);
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(epoch: u64, offset: usize, text: &str) -> Delta {
        Delta { incarnation: Incarnation(Uuid::nil()), epoch, offset, text: text.into() }
    }

    #[test]
    fn a_reply_is_announced_with_its_beginning_until_it_is_finished() {
        let mut ledger = ReplyLedger::default();
        let announced = |ledger: &mut ReplyLedger, delta| {
            let (_, one) = ledger.add(7, delta);
            (one.reply, one.first, one.offset)
        };
        assert_eq!(announced(&mut ledger, delta(1, 0, "Hel")), (1, 1, 0));
        assert_eq!(announced(&mut ledger, delta(1, 3, "lo")), (1, 2, 3));
        assert_eq!(announced(&mut ledger, delta(2, 0, "Good")), (3, 3, 0), "another run");
        assert_eq!(announced(&mut ledger, delta(2, 9, "bye")), (4, 4, 9), "a piece was lost before this one");
        let incarnation = Incarnation(Uuid::nil());
        assert_eq!(ledger.finish(incarnation), Some(FinishedReply { tk: 7, incarnation, last: 4 }));
        assert_eq!(ledger.finish(incarnation), None);
        assert_eq!(announced(&mut ledger, delta(2, 0, "Next")), (5, 5, 0));
    }
}
