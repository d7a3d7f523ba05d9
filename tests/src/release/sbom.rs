//! What a program is made of, in the form that scanners read: `CycloneDX`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use cyclonedx_bom::external_models::uri::Purl;
use cyclonedx_bom::models::bom::{Bom, SpecVersion};
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;
use cyclonedx_bom::validation::Validate;

use super::parts::Origin;
use super::{Part, Program, VERSION};

/// A program's list of parts, as JSON. Fails where that is not what `CycloneDX` calls valid.
pub fn json(program: &Program, parts: &BTreeSet<Part>) -> Result<Vec<u8>> {
    let mut main = Component::new(
        Classification::Application,
        program.binary,
        VERSION,
        Some(program.package.to_owned()),
    );
    main.licenses = Some(licences("Apache-2.0"));
    let others = parts.iter().filter(|part| part.name != program.package);
    let bom = Bom {
        metadata: Some(Metadata {
            component: Some(main),
            ..Metadata::default()
        }),
        components: Some(Components(others.map(component).collect::<Result<_>>()?)),
        spec_version: SpecVersion::V1_5,
        // A number of its own each time would make two releases of the same differ.
        serial_number: None,
        ..Bom::default()
    };
    let validity = bom.validate_version(SpecVersion::V1_5);
    ensure!(
        validity.passed(),
        "the list of {}'s parts is not valid: {validity:?}",
        program.binary
    );
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json)
        .context("can't write the list of parts")?;
    Ok(json)
}

fn component(part: &Part) -> Result<Component> {
    let reference = format!("{}@{}", part.name, part.version);
    let mut component = Component::new(Classification::Library, &part.name, &part.version, Some(reference));
    component.licenses = Some(licences(&part.licence));
    let kind = match part.origin {
        Origin::Crate => "cargo",
        Origin::Ours | Origin::Toolchain => "generic",
    };
    component.purl = Some(Purl::new(kind, &part.name, &part.version)?);
    Ok(component)
}

fn licences(expression: &str) -> Licenses {
    Licenses(vec![LicenseChoice::expression(expression)])
}
