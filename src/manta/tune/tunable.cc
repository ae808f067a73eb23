#include "manta/tune/tunable.h"

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace detail {

Json label_of(const Resources& value, size_t) { return to_string(value); }
Json label_of(const Checkpoint& value, size_t) { return value.path(); }
Json label_of(const AnyPreprocessor& value, size_t) {
  return value ? Json(value->to_string()) : Json();
}
Json label_of(const Dataset&, size_t place) { return str("data set ", place); }

const Json& assigned_value(const Assignment& assignment, const std::string& path) {
  auto found = assignment.find(path);
  if (found != assignment.end()) return found->second;
  throw Error(ErrorKind::kCorrupt, str("a trial has no value for '", path, "'"));
}

size_t assigned_place(const Assignment& assignment, const std::string& path, size_t places) {
  const Json& place = assigned_value(assignment, path);
  if (place.is_number_unsigned() && place.get<uint64_t>() < places) return place.get<size_t>();
  throw Error(ErrorKind::kCorrupt, str("a trial has ", short_text(place), " for '", path,
                                       "', which has ", places, " values to choose from"));
}

void check_domain(const Domain& domain, bool integers) {
  if (!integers || domain.draws_integers()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(domain.to_string(),
                  " draws no whole numbers, which this option takes: use "
                  "randint or qrandint"));
}

Space labels(std::vector<Json> labels, bool is_choice, bool is_grid) {
  if (!is_choice) return labels.front();
  return is_grid ? Space(Grid<Json>{std::move(labels)}) : Space(Choice<Json>{std::move(labels)});
}

Space fixed(const Space& space, const Assignment& assignment, const std::string& path) {
  return resolve(space, assignment, path);
}

void fail_to_load(const std::string& path) {
  throw Error(ErrorKind::kInvalidArgument,
              str(path,
                  " holds objects, which neither an experiment nor the space of as_trainable() "
                  "has: give param_space to Tuner::restore again, or the trainer itself to the "
                  "Tuner"));
}

const Json& loaded_value(const Space& space, const std::string& path) {
  auto* value = std::get_if<Json>(&space.node());
  if (value && (value->is_number() || value->is_boolean())) return *value;
  throw Error(ErrorKind::kCorrupt, str("the stored ", path, " is no number"));
}

const Space* Load::find(const std::string& name) const {
  auto* object = std::get_if<Space::Object>(&space.node());
  if (!object) return nullptr;
  auto found = object->find(name);
  return found == object->end() ? nullptr : &found->second;
}

std::string join_path(const std::string& path, const std::string& name) {
  std::string part = path_part(name);
  return path.empty() ? part : path + "/" + part;
}

}  // namespace detail

Json override_config(const Json& own, const Space& fixed) {
  Json values = resolve(fixed, {});
  if (!values.is_object())
    throw Error(ErrorKind::kInvalidArgument,
                str("the search space of a configuration must be an object; received ",
                    short_text(values)));
  Json merged = own.is_null() ? Json::object() : own;
  merged.update(values, /*merge_objects=*/true);
  return merged;
}

ScalingConfig override_scaling(ScalingConfig own, const ScalingSpace& fixed) {
  own.num_workers = fixed.num_workers.value().value_or(own.num_workers);
  own.use_gpu = fixed.use_gpu.value().value_or(own.use_gpu);
  own.resources_per_worker = fixed.resources_per_worker.value().value_or(own.resources_per_worker);
  return own;
}

}  // namespace manta::tune
