//! Vectors of memories: stored beside them, found missing, deleted with them.

use sederunt_core::memory::vector::Vector;
use sederunt_core::memory::{Memory, MemoryKind};
use sederunt_core::store::{Record, VectorQuery};

use crate::record_builders::{arc, at, fact, owner};
use crate::stores::TestStore;

on_each_store! {
    a_memory_waits_for_its_vector_until_a_model_has_looked_at_it,
    another_model_looks_at_everything_again,
    a_vector_goes_with_what_it_was_made_of,
    vectors_are_numbered_and_the_newest_can_be_had_alone,
    memories_are_counted_and_had_by_their_ids,
    vectors_of_two_tenants_never_meet;
    durable: vectors_outlive_the_process,
}

const MODEL: &str = "m";

fn vector(x: f32) -> Vector {
    Vector::of(&[x, 1.0, -0.5]).unwrap()
}

impl TestStore {
    async fn keeps(&self, memory: Memory) -> Memory {
        self.record(Record::PutMemory(Box::new(memory.clone()))).await;
        memory
    }

    async fn embed(&self, model: &str, memory: &Memory, made: Option<Vector>) {
        self.keep_vectors(&self.tenant, model, vec![(memory.clone(), made)]).await.unwrap();
    }

    /// Ids of the memories that this model has yet to embed.
    async fn missing(&self, model: &str) -> Vec<String> {
        let found = self.unembedded(model, 100).await.unwrap();
        let mut ids: Vec<String> =
            found.into_iter().filter(|(tenant, _)| *tenant == self.tenant).map(|(_, one)| one.id).collect();
        ids.sort();
        ids
    }

    /// How many vectors there are, and the ids of those after a number.
    async fn shelf(&self, model: &str, after: i64, limit: usize) -> (u64, Vec<String>) {
        let (kept, numbered) = self.numbered(model, after, limit).await;
        (kept, numbered.into_iter().map(|(_, memory)| memory).collect())
    }

    async fn numbered(&self, model: &str, after: i64, limit: usize) -> (u64, Vec<(i64, String)>) {
        let query = VectorQuery { owner: owner("ann"), model: model.into(), after, limit };
        let found = self.vectors(&self.tenant, query).await.unwrap();
        (found.kept, found.items.into_iter().map(|one| (one.number, one.memory)).collect())
    }
}

async fn a_memory_waits_for_its_vector_until_a_model_has_looked_at_it(store: &TestStore) {
    let tea = store.keeps(fact("tea", "ann", "tea")).await;
    let told = store.keeps(arc("arc", "ann", "about it", "2026-11-16T08:00:00Z")).await;
    store.keeps(Memory { dormant_at: Some(at("2026-11-17T00:00:00Z")), ..fact("old", "ann", "milk") }).await;
    assert_eq!(store.missing(MODEL).await, ["arc", "tea"], "nobody asks for what is not brought up");
    store.embed(MODEL, &tea, Some(vector(1.0))).await;
    // A memory that a model refused is not given to it again.
    store.embed(MODEL, &told, None).await;
    assert_eq!(store.missing(MODEL).await, [""; 0]);
    let query = VectorQuery { owner: owner("ann"), model: MODEL.into(), after: 0, limit: 10 };
    let found = store.vectors(&store.tenant, query).await.unwrap();
    assert_eq!((found.kept, found.items.len()), (1, 1));
    assert_eq!((found.items[0].memory.as_str(), &found.items[0].vector), ("tea", &vector(1.0)));
}

async fn another_model_looks_at_everything_again(store: &TestStore) {
    let tea = store.keeps(fact("tea", "ann", "tea")).await;
    store.embed(MODEL, &tea, Some(vector(1.0))).await;
    for other in ["a", "z"] {
        assert_eq!(store.missing(other).await, ["tea"], "{other}");
        assert_eq!(store.shelf(other, 0, 10).await, (0, vec![]));
    }
    store.embed("z", &tea, Some(vector(2.0))).await;
    assert_eq!(store.shelf("z", 0, 10).await, (1, vec!["tea".to_owned()]));
    assert_eq!(store.shelf(MODEL, 0, 10).await, (0, vec![]), "the last word stands");
}

async fn a_vector_goes_with_what_it_was_made_of(store: &TestStore) {
    let tea = store.keeps(fact("tea", "ann", "tea")).await;
    store.embed(MODEL, &tea, Some(vector(1.0))).await;
    let used = Memory { last_referenced_at: at("2026-12-01T00:00:00Z"), ..tea.clone() };
    store.keeps(used).await;
    assert_eq!(store.shelf(MODEL, 0, 10).await.0, 1, "it says what it said");
    let changed = store.keeps(fact("tea", "ann", "green tea")).await;
    assert_eq!(store.shelf(MODEL, 0, 10).await.0, 0);
    assert_eq!(store.missing(MODEL).await, ["tea"]);
    store.embed(MODEL, &tea, Some(vector(1.0))).await;
    assert_eq!(store.shelf(MODEL, 0, 10).await.0, 0, "made of what it said before");
    store.embed(MODEL, &changed, Some(vector(2.0))).await;
    assert_eq!(store.shelf(MODEL, 0, 10).await.0, 1);
    let dormant = Memory { dormant_at: Some(at("2026-11-17T00:00:00Z")), ..changed.clone() };
    store.keeps(dormant).await;
    assert_eq!((store.shelf(MODEL, 0, 10).await.0, store.missing(MODEL).await.len()), (0, 0));
    store.keeps(changed.clone()).await;
    store.embed(MODEL, &changed, Some(vector(2.0))).await;
    store.record(Record::DropMemory { id: "tea".into() }).await;
    assert_eq!((store.shelf(MODEL, 0, 10).await.0, store.missing(MODEL).await.len()), (0, 0));
    store.embed(MODEL, &changed, Some(vector(2.0))).await;
    assert_eq!(store.shelf(MODEL, 0, 10).await.0, 0, "nothing comes back");
}

async fn vectors_are_numbered_and_the_newest_can_be_had_alone(store: &TestStore) {
    for name in ["one", "two", "three"] {
        let memory = store.keeps(fact(name, "ann", name)).await;
        store.embed(MODEL, &memory, Some(vector(1.0))).await;
    }
    let all = ["one", "two", "three"].map(str::to_owned);
    assert_eq!(store.shelf(MODEL, 0, 10).await, (3, all.to_vec()));
    let (_, numbered) = store.numbered(MODEL, 0, 10).await;
    let (first, last) = (numbered[0].0, numbered[2].0);
    assert_eq!(store.shelf(MODEL, first, 10).await, (3, all[1..].to_vec()));
    assert_eq!(store.shelf(MODEL, 0, 2).await, (3, all[1..].to_vec()));
    assert_eq!(store.shelf(MODEL, last, 10).await, (3, vec![]));
    store.record(Record::DropMemory { id: "three".into() }).await;
    let memory = store.keeps(fact("four", "ann", "four")).await;
    store.embed(MODEL, &memory, Some(vector(1.0))).await;
    assert_eq!(store.shelf(MODEL, last, 10).await, (3, vec!["four".to_owned()]), "no number is given twice");
}

async fn memories_are_counted_and_had_by_their_ids(store: &TestStore) {
    for name in ["one", "two"] {
        store.keeps(fact(name, "ann", name)).await;
    }
    store.keeps(fact("hers", "ben", "tea")).await;
    store.keeps(Memory { dormant_at: Some(at("2026-11-17T00:00:00Z")), ..fact("old", "ann", "milk") }).await;
    for (name, kind, count) in
        [("ann", MemoryKind::Fact, 2), ("ann", MemoryKind::Arc, 0), ("none", MemoryKind::Fact, 0)]
    {
        assert_eq!(store.count_memories(&store.tenant, &owner(name), kind).await.unwrap(), count, "{name}");
    }
    let ids = ["two", "gone", "hers"].map(str::to_owned);
    let found = store.memories_at(&store.tenant, &ids).await.unwrap();
    let mut found: Vec<_> = found.into_iter().map(|memory| memory.id).collect();
    found.sort();
    assert_eq!(found, ["hers", "two"]);
}

async fn vectors_of_two_tenants_never_meet(store: &TestStore) {
    let other = store.tenant_named("other").await.tenant.clone();
    let tea = store.keeps(fact("tea", "ann", "tea")).await;
    store.keep_vectors(&other, MODEL, vec![(tea.clone(), Some(vector(1.0)))]).await.unwrap();
    assert_eq!(store.missing(MODEL).await, ["tea"]);
    store.embed(MODEL, &tea, Some(vector(1.0))).await;
    let query = VectorQuery { owner: owner("ann"), model: MODEL.into(), after: 0, limit: 10 };
    assert_eq!(store.vectors(&other, query).await.unwrap().kept, 0);
    assert_eq!(store.count_memories(&other, &owner("ann"), MemoryKind::Fact).await.unwrap(), 0);
    assert!(store.memories_at(&other, &["tea".to_owned()]).await.unwrap().is_empty());
}

async fn vectors_outlive_the_process(store: &TestStore) {
    let tea = store.keeps(fact("tea", "ann", "tea")).await;
    store.embed(MODEL, &tea, Some(vector(1.0))).await;
    let kept = (1, vec!["tea".to_owned()]);
    if let Some(copy) = store.copied().await {
        assert_eq!(copy.shelf(MODEL, 0, 10).await, kept, "a copy carries them");
        copy.remove().await;
    }
    let after = store.reopened().await;
    assert_eq!(after.shelf(MODEL, 0, 10).await, kept);
    after.close().await;
}
