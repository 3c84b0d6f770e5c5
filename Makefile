# What people type. Meson and ninja do the work: build/ is the command, build-test/ has assertions on and runs the tests.
PREFIX ?= /usr/local
.PHONY: build demo test coverage bench soak guest fuzz asan tsan fmt lint install clean setup
build: setup
	@scripts/configure build --buildtype=release -Dprefix=$(PREFIX)
	@ninja -C build
setup:
	@scripts/setup
demo: build
	@scripts/demo
test: setup
	@scripts/configure build-test -Dchecks=debug
	@scripts/run-tests build-test
coverage: setup
	@scripts/configure build-cov -Dchecks=debug -Dcoverage=true
	@scripts/coverage build-cov --holes=10
bench: build
	@build/quire bench replay
	@build/quire bench linux
	@build/quire bench alloc
# About an hour: docs/checking.md.
soak: setup
	@scripts/configure build-soak -Dchecks=expensive
	@scripts/setup --all
	@ninja -C build-soak
	@scripts/soak build-soak $(or $(ROUNDS),1) $(or $(SECONDS_EACH),240)
# The fidelity scripts in Debian kernels under qemu: settings, nodes. RANDOM_SCRIPTS=0 for the written ones alone.
guest: build
	@scripts/setup --all
	@scripts/guest --random $(or $(RANDOM_SCRIPTS),300)
# Ten minutes a target, under sanitizers: SECONDS_EACH=60 for a short look.
fuzz:
	@scripts/setup --all
	@scripts/fuzz --seconds=$(or $(SECONDS_EACH),600)
# Instrumented code makes gcc warn about what cannot happen: warnings count in the other builds.
asan: setup
	@scripts/configure build-asan -Dchecks=debug -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false
	@scripts/run-tests build-asan --timeout-multiplier=4
tsan: setup
	@scripts/configure build-tsan -Dchecks=debug -Db_sanitize=thread -Db_lundef=false -Dwerror=false
	@scripts/run-tests build-tsan --timeout-multiplier=8
fmt:
	@git ls-files '*.c' '*.h' | xargs clang-format -i
lint:
	@scripts/lint
install: build
	@meson install -C build --no-rebuild
clean:
	@rm -rf build build-test build-soak build-asan build-tsan build-cov build-fuzz
