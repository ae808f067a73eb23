#include "manta/predict/predictor_factory.h"

#include <map>
#include <mutex>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"

namespace manta {
namespace {

struct NamedMaker {
  Thunk thunk = nullptr;
  void (*target)() = nullptr;
  bool twice = false;  ///< Another maker has the name, too.
};

struct Makers {
  std::mutex mutex;
  std::set<Thunk> thunks;
  std::map<std::string, NamedMaker> by_name;
};

Makers& makers() {
  static auto* makers = new Makers;  // used during static initialisation and to the very end
  return *makers;
}

std::string names_of_makers() {
  std::string names;
  for (const auto& [name, maker] : makers().by_name) {
    names += str(names.empty() ? "'" : ", '", name, "'");
  }
  return names.empty() ? "none" : names;
}

}  // namespace

namespace internal {

bool register_predictor_thunk(Thunk thunk) {
  std::lock_guard lock(makers().mutex);
  makers().thunks.insert(thunk);
  return register_thunk(thunk);
}

bool register_predictor_name(const std::string& name, Thunk thunk, void (*target)()) {
  std::lock_guard lock(makers().mutex);
  auto [entry, added] = makers().by_name.try_emplace(name, NamedMaker{thunk, target});
  // The error is thrown where the name is used: it could not be caught before main.
  if (entry->second.thunk != thunk || entry->second.target != target) entry->second.twice = true;
  return true;
}

std::string predictor_class_name(const std::type_info& type) { return demangle(type.name()); }

}  // namespace internal

std::unique_ptr<Predictor> PredictorFactory::make(const Checkpoint& checkpoint) const {
  if (!*this) throw Error(ErrorKind::kInvalidArgument, "no predictor was named");
  if (!checkpoint) {
    throw Error(ErrorKind::kInvalidArgument,
                str(to_string(), " was given no checkpoint: did the run report one?"));
  }
  auto [thunk, target] = resolve_function(function_);
  {
    std::lock_guard lock(makers().mutex);
    if (!makers().thunks.contains(thunk)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(describe_function(function_), " makes no predictor in this program"));
    }
  }
  std::shared_ptr<void> instance = std::make_shared<Checkpoint>(checkpoint);
  Invocation call;
  call.target = target;
  call.instance = &instance;
  try {
    thunk(call);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kUserCode,
                str(to_string(), " threw ", demangle(typeid(error).name()), " on checkpoint '",
                    checkpoint.uri(), "': ", error.what()));
  }
  auto predictor = std::move(*static_cast<std::unique_ptr<Predictor>*>(instance.get()));
  if (!predictor) {
    throw Error(ErrorKind::kUserCode,
                str(to_string(), " returned no predictor for checkpoint '", checkpoint.uri(), "'"));
  }
  return predictor;
}

std::string PredictorFactory::to_string() const {
  return !name_.empty() ? name_ : *this ? describe_function(function_) : "no predictor";
}

PredictorFactory PredictorFactory::from_name(const std::string& name) {
  std::lock_guard lock(makers().mutex);
  auto found = makers().by_name.find(name);
  if (found == makers().by_name.end()) {
    throw Error(
        ErrorKind::kNotFound,
        str("this program has no predictor ", short_text(name), "; it has ", names_of_makers(),
            ". Use the class in this program, or name the function that makes it: static "
            "const auto make = manta::named(",
            short_text(name), ", function)"));
  }
  const NamedMaker& maker = found->second;
  if (maker.twice) {
    throw Error(ErrorKind::kInvalidArgument,
                str("two predictors have the name ", short_text(name),
                    ": give one of them another name in manta::named (a lambda in a header needs "
                    "`inline const auto`)"));
  }
  PredictorFactory factory;
  factory.function_.thunk = locate_code(reinterpret_cast<const void*>(maker.thunk));
  if (maker.target) {
    factory.function_.target = locate_code(reinterpret_cast<const void*>(maker.target));
  }
  factory.name_ = name;
  return factory;
}

}  // namespace manta
