# One static binary in an empty image, run by nobody in particular; it writes no file, so the root
# file system may be read-only.
#
#   docker build -t REGISTRY/capstan:0.1.0 .
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
ENV CARGO_TARGET_DIR=/target
# Outside a container: the same line, with CARGO_TARGET_DIR set and another place to copy to.
RUN target="$(uname -m)-unknown-linux-gnu" \
 && RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --package capstan --target "$target" \
 && cp "$CARGO_TARGET_DIR/$target/release/capstan" /capstan

FROM scratch
COPY --from=build /capstan /capstan
USER 65532:65532
ENTRYPOINT ["/capstan"]
CMD ["run"]
