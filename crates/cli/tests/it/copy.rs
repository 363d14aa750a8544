use crate::whole::{everything, filled};
use crate::world::World;

/// A schema of its own in the database of the tests.
struct Schema {
    url: String,
    name: String,
}

impl Schema {
    fn new(world: &World, name: &str) -> Self {
        let url = std::env::var("SEDERUNT_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!("SEDERUNT_TEST_POSTGRES is not set: run this through scripts/with-postgres")
        });
        let name = format!("cli_{name}_{}", std::process::id());
        std::fs::write(world.path("pg.toml"), format!("[postgres]\nschema = \"{name}\"\n")).unwrap();
        let schema = Self { url, name };
        schema.drop_it();
        schema
    }

    fn drop_it(&self) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            let driven = tokio::spawn(connection);
            client.batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name)).await.unwrap();
            drop(client);
            driven.await.unwrap().unwrap();
        });
    }
}

#[test]
fn a_store_is_copied_to_postgresql_whole() {
    let world = filled();
    let schema = Schema::new(&world, "copy");
    let before = everything(&world, ".store", &[]);
    let config = ["--config", "pg.toml"];
    let said = world.ok(&["copy", "--from", ".store", "--to", &schema.url, config[0], config[1]]);
    assert!(said.contains("sessions"), "{said}");
    assert_eq!(everything(&world, &schema.url, &config), before);

    let findings = world.ok(&["doctor", "--store", &schema.url, config[0], config[1]]);
    assert!(findings.contains("row security") && !findings.contains("fail"), "{findings}");

    let again = world.fails(&["copy", "--from", ".store", "--to", &schema.url, config[0], config[1]], 4);
    assert!(again.contains("empty"), "{again}");
    schema.drop_it();
}

#[test]
fn a_database_is_migrated_and_served() {
    let world = World::new();
    let schema = Schema::new(&world, "serve");
    let on = ["--store", &schema.url, "--config", "pg.toml"];
    let with = |args: &[&str]| [args, &on].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let run = |args: &[&str]| {
        let args = with(args);
        world.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_ne!(run(&["sessions", "ls"]).code, 0, "an empty database is no store");
    let migrated: serde_json::Value = serde_json::from_str(&run(&["migrate", "--json"]).stdout).unwrap();
    assert_eq!(migrated["from"], 0);
    assert_eq!(run(&["doctor"]).code, 0);
    assert_eq!(run(&["tenants", "create", "acme"]).code, 0);
    let server = world.serve(&on);
    assert!(run(&["tenants", "ls"]).stdout.contains("acme"));
    assert_eq!(server.stop("-TERM"), 0);
    schema.drop_it();
}
