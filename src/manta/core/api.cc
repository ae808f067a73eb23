// The functions that the templates of the public headers call.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/actor.h"
#include "manta/core/client_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {

namespace detail {

namespace {

// Throws unless some nodes could start all of these at once.
void check_possible(Client& client, const std::vector<TaskSpec>& specs, const std::string& what) {
  AskPossible question;
  question.placement = specs.front().placement;
  for (const TaskSpec& spec : specs) question.asked.emplace_back(spec.resources, spec.labels);
  std::string why = client.ask(std::move(question)).text;
  if (!why.empty()) throw Error(ErrorKind::kResources, str(what, " ", why));
}

void check_request(const TaskSpec& spec, Client& client) {
  // The hot path makes no names: only a request that is about to fail is described.
  KnownPossible& known = client.known_possible();
  bool good = spec.labels.empty()
                  ? is_valid(spec.resources) && is_possible(spec.resources, *client.most())
                  : known.contains(spec.resources, spec.labels);
  if (good && spec.max_retries >= 0 && spec.max_restarts >= 0 &&
      is_valid_concurrency(spec.max_concurrency)) {
    return;
  }
  std::string what = str(spec.kind == TaskKind::kTask ? "task '" : "actor '", task_name(spec), "'");
  check_resources(spec.resources, what);
  check_labels(spec.labels, what);
  check_possible(client, {spec}, what);
  if (!spec.labels.empty()) known.add(spec.resources, spec.labels);
  if (!is_valid_concurrency(spec.max_concurrency)) {
    throw Error(ErrorKind::kInvalidArgument,
                str(what,
                    ": max_concurrency, the number of its calls that run at once, must be "
                    "from 1 to ",
                    ActorOptions::kMaxConcurrency, " (was ", spec.max_concurrency, ")"));
  }
  if (spec.max_retries >= 0 && spec.max_restarts >= 0) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(what, ": the number of retries or restarts must not be negative (was ",
                  std::min(spec.max_retries, spec.max_restarts), ")"));
}

void fill_in(TaskSpec& spec, Client& client) {
  if (spec.kind != TaskKind::kActorCall) check_request(spec, client);
  spec.id = client.new_id();
  if (auto running = client.running()) {
    spec.parent = running->id;
    spec.depth = running->depth + 1;
  }
}

}  // namespace

ObjectId handle_id(const ObjectHandle& handle) { return handle.id; }

ObjectId live_id(const HandlePtr& handle, const char* what) {
  if (!handle) throw Error(ErrorKind::kInvalidArgument, str(what, " is empty"));
  if (handle->client != Client::current("ObjectRef")) {
    throw Error(ErrorKind::kInvalidArgument, str(what, " is of a Manta that was shut down"));
  }
  return handle->id;
}

HandlePtr borrow_object(ObjectId id) { return Client::current("ObjectRef")->borrow(id); }

HandlePtr put_value(Value value) {
  auto client = Client::current("put");
  ObjectId id = client->new_id();
  client->send(Put{id, std::move(value)});
  return client->own(id);
}

const Value& await_value(const HandlePtr& handle, Deadline deadline) {
  auto client = Client::current("get");
  const Outcome* outcome = client->outcome_of(handle);
  if (!outcome) {
    if (!client->await({handle}, 1, true, deadline)) {
      throw Error(ErrorKind::kTimeout, str("get timed out: ", why_waits(handle)));
    }
    outcome = client->outcome_of(handle);
  }
  if (!outcome->ok) throw_error(outcome->error);
  return outcome->value;
}

void await_values(const std::vector<HandlePtr>& handles, Deadline deadline) {
  if (handles.empty()) return;
  Client::current("get")->await(handles, handles.size(), true, deadline);
}

std::vector<bool> await_ready(const std::vector<HandlePtr>& handles, size_t num_ready,
                              Deadline deadline) {
  if (num_ready > handles.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("wait for ", num_ready, " of ", handles.size(),
                    " references: num_ready must not be larger than their number"));
  }
  auto client = Client::current("wait");
  client->await(handles, num_ready, false, deadline);
  return client->ready_flags(handles);
}

void notify_when_ready(const HandlePtr& handle, std::function<void()> done) {
  if (!done) throw Error(ErrorKind::kInvalidArgument, "on_ready was given no function to call");
  Client::current("on_ready")->notify(handle, std::move(done));
}

void cancel_task(const HandlePtr& handle, bool force) {
  auto client = Client::current("cancel");
  CancelTask request;
  request.id = live_id(handle, "the ObjectRef to cancel");
  request.force = force;
  client->ask(request);
}

std::string why_waits(const HandlePtr& handle) {
  AskWhy question;
  question.id = live_id(handle, "the ObjectRef");
  return Client::current("why_waits")->ask(question).text;
}

void save_handle(OutArchive& archive, const HandlePtr& handle) {
  ObjectId id = handle ? live_id(handle, "a reference inside a value") : 0;
  archive(id);
  if (id != 0) archive.refs.push_back(id);
}

HandlePtr load_handle(InArchive& archive) {
  ObjectId id = 0;
  archive(id);
  return id == 0 ? nullptr : borrow_object(id);
}

HandlePtr submit(TaskSpec spec) {
  auto client = Client::current(spec.kind == TaskKind::kActorCall ? "ActorHandle::call" : "remote");
  fill_in(spec, *client);
  ObjectId id = spec.id;
  client->send(Submit{std::move(spec)});
  return client->own(id);
}

HandlePtr create_actor(TaskSpec spec) {
  auto client = Client::current("actor");
  if (spec.actor_name.empty()) return submit(std::move(spec));
  fill_in(spec, *client);
  ObjectId id = spec.id;
  CreateNamed request;
  request.spec = std::move(spec);
  client->ask(std::move(request));  // throws if the name is taken
  return client->own(id);
}

std::vector<HandlePtr> create_group(std::vector<TaskSpec> specs) {
  auto client = Client::current("actor_group");
  for (TaskSpec& spec : specs) {
    if (!spec.actor_name.empty() || !spec.ref_args.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("an actor of a group can have neither a name (received '", spec.actor_name,
                      "') nor references as arguments (received ", spec.ref_args.size(), ")"));
    }
    if (spec.placement != specs.front().placement) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the actors of a group are placed together, but one asks for ",
                      to_string(specs.front().placement), " and another for ",
                      to_string(spec.placement), ": give all of them the same placement"));
    }
    fill_in(spec, *client);
  }
  if (specs.empty()) return {};
  check_possible(*client, specs,
                 str("a group of ", specs.size(), " actors '", task_name(specs.front()), "'"));
  std::vector<ObjectId> ids;
  for (const TaskSpec& spec : specs) ids.push_back(spec.id);
  client->send(CreateGroup{std::move(specs)});
  std::vector<HandlePtr> handles;
  for (ObjectId id : ids) handles.push_back(client->own(id));
  return handles;
}

HandlePtr find_actor(const std::string& name, const std::string& type) {
  auto client = Client::current("get_actor");
  FindActor question;
  question.name = name;
  question.type = type;
  return client->own(client->ask(question).id);
}

void kill_actor(const HandlePtr& actor, bool may_restart) {
  auto client = Client::current("kill");
  client->send(KillActor{live_id(actor, "the ActorHandle to kill"), may_restart});
}

}  // namespace detail

bool is_cancelled() {
  auto client = Client::current_or_null();
  auto running = client ? client->running() : nullptr;
  return running && running->cancelled;
}

RuntimeContext get_runtime_context() {
  auto client = Client::current("get_runtime_context");
  auto running = client->running();
  RuntimeContext context;
  context.process = "driver";
  if (running) context = running->context;
  context.node = client->host();
  context.node_id = client->node();
  if (!running) return context;
  if (context.task.empty()) context.task = describe_function(running->function);
  return context;
}

}  // namespace manta
