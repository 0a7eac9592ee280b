# One static binary in an empty image, run by nobody in particular; it writes no file, so the root
# file system may be read-only.
#
#   docker build -t REGISTRY/capstan:0.1.0 .
FROM rust:1.95.0-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends musl-tools
WORKDIR /src
COPY . .
# Outside a container: the same line, with musl-gcc installed; then `ldd` says "statically linked".
RUN target="$(uname -m)-unknown-linux-musl" \
 && rustup target add "$target" \
 && cargo build --release --locked --package capstan --target "$target" \
 && cp "target/$target/release/capstan" /capstan

FROM scratch
COPY --from=build /capstan /capstan
USER 65532:65532
ENTRYPOINT ["/capstan"]
CMD ["run"]
