# syntax=docker/dockerfile:1
# Two images from one build, each one binary on a base without a shell or package manager, as a user without rights:
#   docker build --target operator -t cardgate/operator:0.1.0 .
#   docker build --target webhook -t cardgate/webhook:0.1.0 .

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The caches outlive the layer, so a second build compiles what changed.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package cardgate-operator --package cardgate-webhook \
    && install -D --target-directory=/out target/release/operator target/release/webhook

# The same Debian as above, so the same glibc.
FROM gcr.io/distroless/cc-debian12:nonroot AS base
USER 65532:65532

FROM base AS webhook
COPY --from=build /out/webhook /usr/local/bin/webhook
# https, metrics, health
EXPOSE 9443 8080 8081
ENTRYPOINT ["/usr/local/bin/webhook"]

FROM base AS operator
COPY --from=build /out/operator /usr/local/bin/operator
# questions, metrics, health
EXPOSE 8443 8080 8081
ENTRYPOINT ["/usr/local/bin/operator"]
