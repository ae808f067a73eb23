#include <map>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/concatenator.h"
#include "manta/preprocess/discretizers.h"
#include "manta/preprocess/encoders.h"
#include "manta/preprocess/function_transformer.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/preprocess/repartitioner.h"
#include "manta/preprocess/robust_scaler.h"
#include "manta/preprocess/row_transformers.h"
#include "manta/preprocess/scalers.h"
#include "manta/preprocess/simple_imputer.h"
#include "manta/preprocess/text_preprocessors.h"

namespace manta {
namespace {

template <class T>
AnyPreprocessor make_preprocessor(const Json& state) {
  return T::from_state(state);
}

// Those of Manta itself, and those that the program has registered.
std::map<std::string, internal::MakePreprocessor>& preprocessors() {
  static std::map<std::string, internal::MakePreprocessor> by_name = {
      {"StandardScaler", make_preprocessor<StandardScaler>},
      {"MinMaxScaler", make_preprocessor<MinMaxScaler>},
      {"MaxAbsScaler", make_preprocessor<MaxAbsScaler>},
      {"RobustScaler", make_preprocessor<RobustScaler>},
      {"Normalizer", make_preprocessor<Normalizer>},
      {"PowerTransformer", make_preprocessor<PowerTransformer>},
      {"SimpleImputer", make_preprocessor<SimpleImputer>},
      {"OrdinalEncoder", make_preprocessor<OrdinalEncoder>},
      {"OneHotEncoder", make_preprocessor<OneHotEncoder>},
      {"MultiHotEncoder", make_preprocessor<MultiHotEncoder>},
      {"LabelEncoder", make_preprocessor<LabelEncoder>},
      {"Categorizer", make_preprocessor<Categorizer>},
      {"UniformKBinsDiscretizer", make_preprocessor<UniformKBinsDiscretizer>},
      {"CustomKBinsDiscretizer", make_preprocessor<CustomKBinsDiscretizer>},
      {"Tokenizer", make_preprocessor<Tokenizer>},
      {"CountVectorizer", make_preprocessor<CountVectorizer>},
      {"HashingVectorizer", make_preprocessor<HashingVectorizer>},
      {"FeatureHasher", make_preprocessor<FeatureHasher>},
      {"Concatenator", make_preprocessor<Concatenator>},
      {"FunctionTransformer", make_preprocessor<FunctionTransformer>},
      {"Repartitioner", make_preprocessor<Repartitioner>},
      {"Chain", make_preprocessor<Chain>},
  };
  return by_name;
}

}  // namespace

void internal::add_preprocessor(const std::string& name, MakePreprocessor make) {
  bool is_new = preprocessors().emplace(name, make).second;
  MANTA_CHECK(is_new, str("two preprocessors are called '", name, "'"));
}

Json Preprocessor::to_json() const {
  if (!preprocessors().contains(name())) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the preprocessor '", name(),
                    "' is not registered, so no file could name it; write at namespace scope: "
                    "static const bool known = manta::register_preprocessor<",
                    demangle(typeid(*this).name()), ">(\"", name(), "\");"));
  }
  return {{"version", 1}, {"name", name()}, {"state", state()}};
}

AnyPreprocessor AnyPreprocessor::from_json(const Json& json, const std::string& document) {
  if (!json.is_object()) {
    throw Error(ErrorKind::kCorrupt, str(document, " is not a preprocessor: ", short_text(json)));
  }
  check_depth(json, document);  // a Chain may hold a Chain
  JsonFields fields(json, document);
  fields.integer("version", 1, 1);
  std::string name = fields.text("name");
  auto known = preprocessors().find(name);
  if (known == preprocessors().end()) {
    throw Error(ErrorKind::kNotFound,
                str(document, " names a preprocessor '", name,
                    "', which this program does not have: link what registers it"));
  }
  try {
    return known->second(fields.any("state"));
  } catch (const Error& error) {
    throw Error(error.kind(), str(document, ", state of '", name, "': ", error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kCorrupt, str(document, ", state of '", name, "': ", error.what()));
  }
}

}  // namespace manta
