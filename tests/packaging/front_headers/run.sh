#!/usr/bin/env bash
# With soma::dispatch, a unit of each front header links with the library and the compiled halves that the header needs, and
# compiles no body that the library has (weak.py).
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
library=$SOMA_BUILD/libsoma_dispatch.a
[ -f "$library" ] || skip "no libsoma_dispatch.a in the build folder"

left_out=()
names=()
declare -A link_of flags_of
# unit <header> <what it uses> [<compiled halves and libraries>] [<foreign header that it needs> <flags>...]
unit() {
  local header=$1 use=$2 needs=${3:-} foreign=${4:-} name part
  name=$(basename "$header" .hpp)
  if [ -n "$foreign" ] && ! echo "#include <$foreign>" | "$CXX" "${@:5}" -E -x c++ - >/dev/null 2>&1; then
    left_out+=("$header (no $foreign)")
    return
  fi
  names+=("$name")
  flags_of[$name]="${*:5}"
  link_of[$name]=''
  for part in $needs; do
    case $part in -*) link_of[$name]+=" $part" ;; *) link_of[$name]+=" $SOMA_BUILD/libsoma_$part.a" ;; esac
  done
  # What is used of a header stands behind it, so that no later header is needed for it.
  printf '#include <%s>\n#include <soma/forward.hpp>\nauto use_%s(soma::Context& context);\nauto use_%s(soma::Context& context) {
  static_cast<void>(context);\n  return %s;\n}\n' "$header" "$name" "$name" "$use" >"$name.cpp"
}
text_libraries="-lutf8proc -lz"
unit soma/api.hpp 'soma::Tensor::full(context, {2}, 1.0f).shape()'
unit soma/soma.hpp 'soma::make_context({.threads = 1}).target().name'
unit soma/nn.hpp 'soma::nn::BatchNorm({context}, 3)'
unit soma/testing.hpp 'soma::testing::check_operator(context, "relu").passed()'
unit soma/plugin.hpp 'soma::load_operators(context, "./none.so").size()'
unit soma/processors.hpp 'soma::load_operators(context, "./none.so", {}).size()'
unit soma/neuroncore.hpp 'soma::neuroncore::make_core(context).values({}).size()'
unit soma/neuroncore_clock.hpp 'soma::neuroncore::report(soma::neuroncore::make_core(context))'
unit soma/sparse.hpp '(soma::add_sparse(context), 0)'
unit soma/train.hpp 'soma::train::Trainer(context, *static_cast<soma::nn::Task*>(nullptr), {}).options()'
unit soma/parallel.hpp 'soma::EvenPartition(3)'
# shellcheck disable=SC2046  # words on purpose
unit soma/mpi.hpp 'soma::mpi::Communicator().rank()' "$(mpicxx --showme:link 2>/dev/null || true)" mpi.h \
  $(mpicxx --showme:compile 2>/dev/null || true)
unit soma/pipeline.hpp 'soma::train::PipelineTrainer(context, *static_cast<soma::nn::Task*>(nullptr), {}).predicted_seconds()' \
  "io -lxxhash" nlohmann/json.hpp
unit soma/io.hpp 'soma::state_hash({})' "io -lxxhash" nlohmann/json.hpp
unit soma/tensorboard.hpp 'soma::EventFile::now()' "" protozero/pbf_writer.hpp
unit soma/text.hpp 'soma::text::train_vocabulary(std::vector<std::string>{"a"}).size()' "text $text_libraries" utf8proc.h
unit soma/models.hpp 'soma::models::bert_config_from_json("{}").config.layers' "models text io -lxxhash $text_libraries" utf8proc.h
unit soma/decoders.hpp 'soma::models::decoder_config_from_json("{\"model_type\": \"gpt2\"}").config.layers' \
  "models text io -lxxhash $text_libraries" utf8proc.h
unit soma/models/text_classifier.hpp 'soma::models::TextClassifier::from_pretrained(context, "none").labels()' \
  "models text io -lxxhash $text_libraries" utf8proc.h
unit soma/xtensor.hpp 'soma::xtensor::adapt<float>(soma::Tensor::full(context, {2}, 1.0f)).size()' "" xtensor.hpp

for name in "${names[@]}"; do
  echo 'int main() {}' >>"$name.cpp"
  # shellcheck disable=SC2086  # words on purpose
  program "$name" "$name.cpp" -- -DSOMA_DISPATCH=1 -I "$include" ${flags_of[$name]} ${link_of[$name]} "$library" -lhwy
done

# Every header that programs include is here.
python3 -B - "$SOMA_SOURCE/tests/house" <<'PY' >wanted.txt
import sys
sys.path.insert(0, sys.argv[1])
import include_cost
print(*sorted(include_cost.FRONT), sep="\n")
PY
sed -n 's|^unit \(soma/[a-z_/]*\.hpp\) .*|\1|p' "$here/run.sh" | sort >given.txt
diff wanted.txt given.txt || fail "front headers of tests/house/include_cost.py (<) are not those of this test (>)"
run python3 -B "$here/weak.py" ./*.o
for header in ${left_out[@]+"${left_out[@]}"}; do echo "left out: $header"; done
echo "${#names[@]} headers"
