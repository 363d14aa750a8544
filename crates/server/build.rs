//! Builds the crate again when the built web app has changed, files that were added or removed included.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A folder that does not exist would count as changed at every build.
    let dist = "../../web/app/dist";
    let watched = if std::path::Path::new(dist).is_dir() { dist } else { "../../web/package.json" };
    println!("cargo::rerun-if-changed={watched}");
}
