//! A program as an image, in one file that `docker load`, `podman load`, `ctr images import`, `kind load image-archive` and registries'
//! tools take: an OCI layout that also has the table of contents that Docker wrote before there were such.

use anyhow::Result;
use oci_spec::image::{
    ANNOTATION_REF_NAME, Arch, ConfigBuilder, Descriptor, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, RootFsBuilder, Sha256Digest,
};
use serde::Serialize;
use serde_json::json;

use super::archive::{Entry, compress, pack};
use super::{Platform, Program, VERSION, digest};

/// What an image is made of.
#[derive(Debug)]
pub struct Image<'a> {
    /// The program that it runs.
    pub program: &'a Program,
    /// That program's file, which needs no other file to run.
    pub binary: Vec<u8>,
    /// The licences of what the program is made of, which come with it.
    pub licences: &'a [u8],
    /// Where it runs.
    pub platform: &'a Platform,
}

/// Who programs run as, in the image and in `manifests/base`.
pub const USER: u32 = 65532;

impl Image<'_> {
    /// The name that manifests call it by.
    pub fn name(&self) -> String {
        format!("cardgate/{}:{VERSION}", self.program.binary)
    }

    /// The image as one file.
    pub fn archive(&self) -> Result<Vec<u8>> {
        let name = self.name();
        let path = format!("/usr/local/bin/{}", self.program.binary);
        let config = ConfigBuilder::default()
            .user(format!("{USER}:{USER}"))
            .exposed_ports(
                self.program
                    .ports
                    .iter()
                    .map(|port| format!("{port}/tcp"))
                    .collect::<Vec<_>>(),
            )
            .entrypoint(vec![path])
            .working_dir("/")
            .build()?;
        let architecture = Arch::from(self.platform.architecture);
        let layer = pack(&self.files())?;
        let configuration = ImageConfigurationBuilder::default()
            .os(Os::from(self.platform.os))
            .architecture(architecture)
            .config(config)
            .rootfs(
                RootFsBuilder::default()
                    .typ("layers")
                    .diff_ids(vec![format!("sha256:{}", digest(&layer))])
                    .build()?,
            )
            .build()?;
        let mut blobs = Vec::new();
        let layer = blob(&mut blobs, MediaType::ImageLayerGzip, compress(&layer)?)?;
        let configuration = blob(&mut blobs, MediaType::ImageConfig, sorted(&configuration)?)?;
        let contents = json!([{
            "Config": path_of(&configuration),
            "RepoTags": [name],
            "Layers": [path_of(&layer)],
        }]);
        let manifest = ImageManifestBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageManifest)
            .config(configuration)
            .layers(vec![layer])
            .build()?;
        let mut manifest = blob(&mut blobs, MediaType::ImageManifest, sorted(&manifest)?)?;
        let names = [
            (ANNOTATION_REF_NAME, VERSION.to_owned()),
            // By this one containerd names what it imports.
            ("io.containerd.image.name", format!("docker.io/{name}")),
        ];
        manifest.set_annotations(Some(names.map(|(key, value)| (key.to_owned(), value)).into()));
        let index = ImageIndexBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageIndex)
            .manifests(vec![manifest])
            .build()?;
        let layout = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
        let mut entries = vec![
            Entry::file("oci-layout", sorted(&layout)?),
            Entry::file("index.json", sorted(&index)?),
            Entry::file("manifest.json", sorted(&contents)?),
            Entry::directory("blobs/"),
            Entry::directory("blobs/sha256/"),
        ];
        entries.append(&mut blobs);
        pack(&entries)
    }

    /// What lies in the image: the program, what glibc asks for names, who the program runs as, and licences.
    fn files(&self) -> Vec<Entry> {
        let mut entries: Vec<_> = [
            "etc/",
            "usr/",
            "usr/local/",
            "usr/local/bin/",
            "usr/share/",
            "usr/share/doc/",
            "usr/share/doc/cardgate/",
        ]
        .into_iter()
        .map(Entry::directory)
        .collect();
        entries.extend([
            Entry::file(
                "etc/passwd",
                format!("nonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n"),
            ),
            Entry::file("etc/group", format!("nonroot:x:{USER}:\n")),
            Entry::file("etc/nsswitch.conf", "hosts: files dns\n"),
            Entry::file("usr/share/doc/cardgate/THIRD-PARTY-LICENSES.txt", self.licences),
            Entry::program(format!("usr/local/bin/{}", self.program.binary), self.binary.clone()),
        ]);
        entries
    }
}

/// Keeps a blob under its digest, and describes it.
fn blob(blobs: &mut Vec<Entry>, kind: MediaType, content: Vec<u8>) -> Result<Descriptor> {
    let digest: Sha256Digest = digest(&content).parse()?;
    let descriptor = Descriptor::new(kind, content.len().try_into()?, digest);
    blobs.push(Entry::file(path_of(&descriptor), content));
    Ok(descriptor)
}

fn path_of(blob: &Descriptor) -> String {
    format!("blobs/sha256/{}", blob.digest().digest())
}

/// As JSON whose keys are sorted: maps that have them in another order each time would give another image each time.
fn sorted(document: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(document)?)?)
}
