# Every command of the book; CI runs these and nothing else. `make` alone lists them.

PYTHON ?= python3
VENV   := .venv
READY  := $(VENV)/ready
PY     := $(VENV)/bin/python
PEERS  := _build/peers
# The tests build into an empty folder of their own: make book OUT=/some/folder
OUT    := .
BUILD   = $(OUT)/_build
# A file stays on one worker; conftest.py hands out the longest first.
WORKERS := -n logical --maxprocesses 4 --dist loadscope --no-loadscope-reorder

# One thread a kernel: outputs do not depend on the number of cores, workers do not fight for them.
export OMP_NUM_THREADS := 1
# What another active environment may have set must not reach ours.
unexport PYTHONPATH PYTHONHOME MPLBACKEND PIP_TARGET PIP_PREFIX PIP_USER PIP_REQUIRE_VIRTUALENV

.PHONY: help book test check serve zip pdf epub audit lab refresh bench peers processors mutants dist clean lock

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

book: $(READY)  ## build the site from the committed notebooks
# Sphinx reads again only the pages that changed: a second build would not repeat a warning, would
# keep a removed page and an old style sheet. So its memory is dropped in these cases.
	@test -f $(BUILD)/ok && test -z "$$(find _static _templates _toc.yml _config.yml -newer $(BUILD)/ok)" \
	  || rm -rf $(BUILD)/.doctrees $(BUILD)/html
	@rm -f $(BUILD)/ok; mkdir -p $(BUILD); touch $(BUILD)/started
# None for a grammar of addresses, which a check of the settings would spend a second on, for nothing.
	@$(PY) -c 'import sys; sys.modules["rfc3987_syntax"] = None; from jupyter_book.cli.main import main; main()' \
	  build . -q -W -n --keep-going --path-output $(OUT)
	@mv $(BUILD)/started $(BUILD)/ok
	@echo "The site is in $(BUILD)/html. To see it in a browser: make serve"

test: $(READY)  ## verify everything: library, notebooks, site, commands
	@$(PY) -m pytest $(WORKERS)

check: $(READY)  ## run again only what has changed since it was verified
	@$(PY) tools/check.py $(WORKERS)

serve: book  ## show the site on a free port of this machine
	@echo "Ctrl-C ends it."; $(PY) -u -m http.server 0 --bind 127.0.0.1 -d $(BUILD)/html 2>/dev/null

zip: book  ## pack the site: unpacked, it can be read from its folder without a server
	@$(PY) -m zipfile -c $(BUILD)/normalization-layers.zip $(BUILD)/html
	@echo "$(BUILD)/normalization-layers.zip: unpack it and open html/index.html"

pdf: book  ## print the book: A4, with contents, index, and the solutions at its end
	@$(PY) tools/editions.py $(BUILD)/html pdf

epub: book  ## pack the book for reading devices, with its formulas as MathML
	@$(PY) tools/editions.py $(BUILD)/html epub

audit: book  ## score every page with Lighthouse and axe; needs Node.js and a quiet machine
	@$(PY) tools/audit.py $(BUILD)/html $(PAGES)

lab: $(READY)  ## open the notebooks in JupyterLab, ready to run
	@echo "Running cells changes the notebooks. Back to the committed outputs: git restore chapters"
	@$(PY) -m jupyterlab --allow-root --config tools/lab/config.py

refresh: $(READY)  ## run all notebooks and store their outputs, or one: CHAPTER=batch-norm
	@$(PY) tools/refresh.py $(CHAPTER)

bench: $(READY)  ## measure the kernels against PyTorch's
	@$(PY) tools/kernel_bench.py

peers: $(PEERS)/ready  ## ask Keras, Flax, ONNX and ten language models for their conventions, and audit seven networks, in an environment of its own
	@PYTHONPATH=. $(PEERS)/bin/python -W ignore tools/model_norms.py
	@PYTHONPATH=. $(PEERS)/bin/python -W ignore tools/peers.py
	@PYTHONPATH=. $(PEERS)/bin/python -W ignore tools/audit_models.py

$(PEERS)/ready: tools/peers.txt tools/audit_models.txt
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-input $(^:%=-r %)
	@touch $@

processors: $(READY)  ## run everything as other processors would: OPTIONS="--sets SSE --threads 1"
	@$(PY) tools/processors.py $(OPTIONS) $(WORKERS)

mutants: $(READY)  ## change the layers in every small way, and see that a test notices
	@$(PY) tools/mutants.py $(PART)

dist: $(READY)  ## pack the library for a release: source archive and wheel
	@$(PY) -m build --no-isolation --outdir $(BUILD)/dist . >$(BUILD)/dist.log || { cat $(BUILD)/dist.log; exit 1; }
	@ls $(BUILD)/dist/*

clean:  ## remove the built site and all caches, but not .venv (rm -r .venv does that)
	rm -rf _build .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) \
	  -type d -prune -exec rm -r {} +

lock:  ## renew requirements.lock: what requirements.txt brings along today
	$(PYTHON) -m venv --clear _build/lock
	_build/lock/bin/python -m pip install --quiet -r requirements.txt
	{ sed '/^#/!d' requirements.lock; _build/lock/bin/python -m pip freeze --exclude-editable \
	  | grep -v -E '^(nvidia|cuda|triton)' | sed 's/+cpu$$//'; } > _build/requirements.lock
	mv _build/requirements.lock requirements.lock

# The stamp is written last, so a half-made environment never counts as ready: it is made anew.
# A ready one is brought up to date in place when a pin changes.
$(READY): requirements.txt requirements.lock pyproject.toml normbook/pyproject.toml
	@found=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
	case "$$found" in 3.1[1-9]|3.[2-9][0-9]) ;; *) echo "make: expected Python 3.11 or newer as \
	'$(PYTHON)', found $${found:-none}; install one or name one: make PYTHON=python3.12 ..." >&2; \
	exit 1;; esac
	@test -f $@ || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) >/dev/null 2>&1; } || { echo "make: \
	expected Python's venv module, '$(PYTHON)' has none that works; on Debian or Ubuntu: \
	apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@echo "Installing the pinned packages into $(VENV), once; this takes minutes. Log: $(VENV)/pip.log"
	@$(PY) -m pip install --disable-pip-version-check --no-input --retries 2 \
	  -r requirements.txt -c requirements.lock >$(VENV)/pip.log 2>&1 || { echo "make: expected the \
	pinned packages, pip said: $$(grep -o -m 1 'ERROR.*' $(VENV)/pip.log | cut -c 1-150); check the network \
	and run this again (log: $(VENV)/pip.log)" >&2; exit 1; }
	@touch $@
