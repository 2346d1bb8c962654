PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINED := -c constraints.txt
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# tests start many processes: without bytecode each of them compiles every library that it imports
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check coverage lint lens docs figures soak clean

demo: $(VENV)/plain ## compile a function, print its certificate, write a plot
	mkdir -p out
	$(BIN)/attnfun compile "sin(3*x)*y" --domain "x=-1:1 y=-1:1" --eps 0.1 -o out/demo.safetensors --plot out/demo.png
	$(BIN)/attnfun verify out/demo.safetensors
	$(BIN)/attnfun eval out/demo.safetensors -0.5,1 0,0.3 0.2,0.5
	@echo "The picture is in out/demo.png"

test: $(VENV)/dev ## everything that must hold
	$(MAKE) --no-print-directory --jobs=2 --output-sync lint check

check: $(VENV)/dev
	$(ONE_THREAD) $(BIN)/pytest -n auto --dist loadgroup

coverage: $(VENV)/dev ## the same tests, slower, with the lines that they miss
	$(ONE_THREAD) $(BIN)/pytest -n auto --dist loadgroup --cov --cov-report=term

lens: $(VENV)/lens ## tests that need transformer-lens and transformers, which are large
	$(BIN)/pytest tests/test_lens.py tests/test_huggingface.py
	$(BIN)/pytest tests/test_zoo.py -k transformer_lens

docs: $(VENV)/dev ## the documentation as a site, in out/site; nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

figures: $(VENV)/dev ## list the tables and pictures that are out of date and make them again (hours); PARTS="tokens zoo" makes these
	$(ONE_THREAD) $(BIN)/python benchmarks/figures.py $(PARTS)

soak: $(VENV)/dev ## attack 5,000 random certificates, in about two hours of processor time
	$(ONE_THREAD) $(BIN)/python tests/soak.py --jobs 2

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/plain: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet $(CONSTRAINED) -e .
	touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --no-compile $(CONSTRAINED) -e '.[dev]' torch==2.13.0
	touch $@

$(VENV)/lens: $(VENV)/dev
	$(BIN)/pip install --quiet $(CONSTRAINED) -e '.[lens,hf]' torch==2.13.0
	touch $@

clean:
	rm -rf $(VENV) out .coverage .pytest_cache .ruff_cache .hypothesis
