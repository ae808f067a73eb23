#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "manta/base/json.h"
#include "manta/train/metric_internal.h"

/// The files that TensorBoard reads: files of records (length, its CRC, bytes, their CRC), each an
/// Event of tensorboard/compat/proto/event.proto, written here field by field.
namespace manta::train {

/// One record of a file.
std::string event_record(const std::string& event);

// ---- Events.

/// The first event of every file.
std::string version_event(double time);
/// Events with this step or a later one are void: the run goes on from there.
std::string restart_event(double time, int64_t step);
std::string scalar_event(double time, int64_t step, const std::string& name, double value);
std::string text_event(double time, int64_t step, const std::string& name, const std::string& text);
std::string histogram_event(double time, int64_t step, const std::string& name,
                            const Histogram& histogram);
/// For the page HPARAMS: numbers, truth values and texts; anything else as its JSON.
std::string hyper_parameters_event(double time, const std::string& run,
                                   const std::map<std::string, Json>& parameters);
std::string hyper_parameters_end_event(double time, bool succeeded);

}  // namespace manta::train
