#include <algorithm>

#include "manta/xgboost/c_api_internal.h"
#include "manta/xgboost/communicator_internal.h"
#include "manta/xgboost/library_internal.h"

namespace manta::xgboost {
namespace {

using train::StoreRequest;

constexpr const char* kAddressKey = "xgboost/tracker";
// The library counts seconds in an int and multiplies them.
constexpr int64_t kLongestSeconds = 100'000;

int64_t whole_seconds(std::chrono::milliseconds timeout) {
  return std::clamp<int64_t>((timeout.count() + 999) / 1000, 1, kLongestSeconds);
}

void* start_tracker(const std::string& address, int workers, int64_t timeout) {
  Json config = {{"dmlc_communicator", "rabit"},
                 {"n_workers", workers},
                 {"host", address},
                 {"port", 0},
                 {"sortby", 1},  // ranks by the order of their task ids
                 {"timeout", timeout}};
  void* tracker = nullptr;
  check_call(XGTrackerCreate(config.dump().c_str(), &tracker), "making XGBoost's tracker");
  check_call(XGTrackerRun(tracker, "{}"), "starting XGBoost's tracker");
  return tracker;
}

std::string address_of(void* tracker) {
  const char* config = nullptr;
  check_call(XGTrackerWorkerArgs(tracker, &config), "asking XGBoost's tracker for its address");
  return config;
}

}  // namespace

Communicator::Communicator(train::Session& session)
    : timeout_seconds_(whole_seconds(session.timeout())) {
  const auto& begin = session.begin();
  if (begin.world_size == 1) return;
  if (begin.rank == 0) {
    tracker_ = start_tracker(begin.place.address, begin.world_size, timeout_seconds_);
    session.ask_store(
        {.kind = StoreRequest::kSet, .keys = {kAddressKey}, .value = address_of(tracker_)},
        session.timeout());
  }
  std::string address =
      session.ask_store({.kind = StoreRequest::kGet, .keys = {kAddressKey}}, session.timeout())
          .value;
  Json config = Json::parse(address);
  std::string rank = std::to_string(begin.rank);
  config["dmlc_communicator"] = "rabit";
  config["dmlc_task_id"] = std::string(8 - std::min<size_t>(rank.size(), 8), '0') + rank;
  config["dmlc_timeout"] = timeout_seconds_;
  check_call(XGCommunicatorInit(config.dump().c_str()), "connecting the workers of XGBoost");
  connected_ = true;
  if (XGCommunicatorGetRank() != begin.rank) {
    throw Error(ErrorKind::kWorkerLost,
                str("XGBoost gave rank ", begin.rank, " the rank ", XGCommunicatorGetRank()));
  }
}

void Communicator::finish() {
  if (!connected_) return;
  connected_ = false;
  check_call(XGCommunicatorFinalize(), "disconnecting the workers of XGBoost");
  if (!tracker_) return;
  Json wait = {{"timeout", timeout_seconds_}};
  check_call(XGTrackerWaitFor(tracker_, wait.dump().c_str()), "ending XGBoost's tracker");
  XGTrackerFree(std::exchange(tracker_, nullptr));
}

// Closes nothing: after an error, closing the connections and the tracker would wait for workers
// that have gone. This process ends anyway.
Communicator::~Communicator() = default;

}  // namespace manta::xgboost
