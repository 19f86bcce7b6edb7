#!/bin/sh
# Every optimiser, full-batch method, schedule and regulariser of the public headers is used by a model in zoo/ or an experiment in lab/, and has its closed form in
# tests/test_closed_forms.c or tests/test_closed_forms_optim.c.
#
#   tests/used.sh
set -eu
cd "$(dirname "$0")/.."

names() { sed -n 's/^CJ_API [a-z_]* \**\(cj_[a-z0-9_]*\)(.*/\1/p'; }
# What makes an optimiser, a schedule or an average, and what solves; their accessors (cj_optim_lr, cj_average_count …) are no methods.
methods=$(names <include/cajal/optim.h | grep -v -e '^cj_optim_' -e '^cj_average_[csf]' -e '^cj_rate_at$' -e '^cj_momentum_' \
    -e '^cj_batch_scaled_lr$' -e '^cj_accumulate$' -e '^cj_step$' -e '^cj_custom_optim$') # the last one is for rules outside the tree: examples/optimiser.c
regularisers=$(sed -n '/---- regularisation/,$p' include/cajal/nn.h | names | grep -v -e '^cj_pruning_mask$' -e '^cj_early_stop_best$' -e '^cj_magnitude_mask$' \
    -e '^cj_dropout_factorisation_loss$') # the last one is the exact objective of a theorem: tests/test_catalogue_experiments.c
layers='cj_dropout_layer cj_noise_layer cj_spectral_norm_layer'

count=0
missing=
unproved=
for name in $methods $regularisers $layers; do
    count=$((count + 1))
    grep -qw "$name" zoo/*.c lab/*.c || missing="$missing $name"
    grep -qw "$name" tests/test_closed_forms*.c || unproved="$unproved $name"
done
[ -z "$missing" ] || { echo "no file in zoo/ or lab/ uses$missing"; exit 1; }
[ -z "$unproved" ] || { echo "no closed form in tests/test_closed_forms*.c for$unproved"; exit 1; }
[ "$count" -ge 60 ] || { echo "only $count names were found in the headers"; exit 1; }
grep -qw cj_custom_optim examples/optimiser.c || { echo "examples/optimiser.c does not use cj_custom_optim"; exit 1; }
echo "$count methods and regularisers, each used in zoo/ or lab/ and held to a closed form"
