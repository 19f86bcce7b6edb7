# Short names for what CMake and the scripts in tools/ do.  The README needs two of them: make demo, make test.
#
#   make            build/cajal, build/libcajal.so, build/libcajal.a       make CMAKE_FLAGS=-DCJ_OPENMP=ON   passes options on
#   make demo       trains a network on the digits                        make test        the tests; make test-long: the long ones too
#   make bench      speed, with a peer beside it                          make lint        clang-format, clang-tidy, cppcheck, shellcheck
#   make asan tsan  the tests under sanitizers                            make format      formats the sources
#   make bare       with nothing but cc and sh: build-bare/cajal          make cuda        the CUDA back-end; it must build
#   make sugar      generates include/cajal/sugar.h and cajal.h           make install uninstall [PREFIX=/usr/local] [DESTDIR=]
#   make clean

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
GENERATOR := $(if $(shell command -v ninja),Ninja,Unix Makefiles)
CMAKE_FLAGS ?=
CTEST = ctest --test-dir $(1) --output-on-failure --no-label-summary -j $(JOBS)

all: $(BUILD)/.configured
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/.configured:
	@command -v cmake >/dev/null || { echo "cmake is missing: tools/setup.sh installs it, make bare does without it" >&2; exit 1; }
	@cmake -S . -B $(BUILD) -G "$(GENERATOR)" -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)
	@touch $@

setup:
	@sh tools/setup.sh

demo: setup
	@$(MAKE) --no-print-directory all
	$(BUILD)/cajal train resnet --data digits depth=8 augment=warp epochs=24 validation=0 --out runs/demo --fresh
	@echo
	@echo "Look at runs/demo/curve.png, confusion.png and examples.png. Then try:"
	@echo "  $(BUILD)/cajal eval runs/demo                              every class: precision, recall, F1, what it is taken for"
	@echo "  $(BUILD)/cajal train mlp hidden=32,128,512 --epochs 10     another network, and a search for its width"
	@echo "  $(BUILD)/cajal train gpt --steps 300                       a small GPT on this project's own text; then: cajal sample runs/gpt-sources"

# The last line is ctest's summary.
test: setup
	@$(MAKE) --no-print-directory all
	@$(call CTEST,$(BUILD)) -LE long -O $(BUILD)/test.log; status=$$?; grep 'tests passed' $(BUILD)/test.log; exit $$status

test-long: setup
	@$(MAKE) --no-print-directory all
	@CAJAL_LONG=1 CAJAL_FUZZ_SECONDS=$${CAJAL_FUZZ_SECONDS:-600} $(call CTEST,$(BUILD)) --timeout 7200 -O $(BUILD)/test-long.log; status=$$?; grep 'tests passed' $(BUILD)/test-long.log; exit $$status

bench: all
	$(BUILD)/cajal bench

# Linux with more address-space randomisation than ThreadSanitizer expects: setarch -R turns it off where it is allowed to.
asan: setup
	@$(MAKE) --no-print-directory all BUILD=build-asan CMAKE_FLAGS="-DCJ_SANITIZE=address,undefined -DCJ_CUDA=OFF"
	@$(call CTEST,build-asan) -LE 'long|slow'
tsan: setup
	@$(MAKE) --no-print-directory all BUILD=build-tsan CMAKE_FLAGS="-DCJ_SANITIZE=thread -DCJ_CUDA=OFF"
	@$$(setarch -R true 2>/dev/null && echo setarch -R) $(call CTEST,build-tsan) -L threads -LE 'long|slow'

lint:
	@sh tools/setup.sh lint
	@$(MAKE) --no-print-directory $(BUILD)/.configured
	@sh tools/lint.sh $(BUILD) $(JOBS)
format:
	@sh tools/setup.sh lint
	@sh tools/lint.sh --format
sugar:
	@sh tools/sugar.sh

bare:
	@sh tools/build-bare.sh
cuda: $(BUILD)/.configured
	@cmake -DCJ_CUDA=ON $(BUILD)
	@cmake --build $(BUILD) -j $(JOBS) --target cajal_cuda

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)
	@cp $(BUILD)/install_manifest.txt $(BUILD)/.installed
uninstall:
	@test -f $(BUILD)/.installed || { echo "nothing was installed from $(BUILD)" >&2; exit 1; }
	@while read -r file || [ -n "$$file" ]; do rm -f "$(DESTDIR)$$file"; done <$(BUILD)/.installed
	@rm -rf "$(DESTDIR)$(PREFIX)/include/cajal" $(BUILD)/.installed
clean:
	rm -rf build build-asan build-tsan build-bare

.PHONY: all setup demo test test-long bench asan tsan lint format sugar bare cuda install uninstall clean
