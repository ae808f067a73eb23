#include "manta/serve/serve.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/serve/control_internal.h"
#include "manta/serve/serve_fixture_internal.h"

namespace manta::serve {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Serve : public testing::Test {
 protected:
  void SetUp() override { start({.http = {.port = 0}}); }
  void TearDown() override { shutdown(); }

  Checkpoint toy(const std::string& text = "2") { return maker_.make({{"toy", text}}); }
  std::string deploy(DeploymentOptions options = {}, const std::string& text = "2") {
    if (options.name.empty()) options.name = "toy";
    options.resources.cpus = 0;
    auto deployment = PredictorDeployment::options(options);
    checkpoint_ = toy(text);
    deployment.deploy<ToyPredictor>(checkpoint_, {.http_adapter = json_columns});
    return deployment.url();
  }
  void open_gate() { std::ofstream(checkpoint_.path() + ".open") << "open"; }
  static DeploymentStatus only() { return status().deployments.at(0); }

  CheckpointMaker maker_;
  Checkpoint checkpoint_;
};

TEST_F(Serve, AnswersAtItsUrl) {
  std::string url = deploy();
  EXPECT_THAT(url, testing::MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/toy"));
  HttpClient client(url);
  auto answer = client.post(R"({"x":[1,2.5,null]})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"predictions":[2,5,null]})");
  EXPECT_THAT(answer.header, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_EQ(client.post(R"({"x":[3]})").body, R"({"predictions":[6]})");
  auto now = only();
  EXPECT_EQ(now.state, "healthy");
  EXPECT_EQ(now.num_replicas, 1);
  EXPECT_EQ(now.url, url);
  EXPECT_THAT(now.predictor, HasSubstr("ToyPredictor"));
  EXPECT_EQ(now.pids.size(), 1u);
}

TEST_F(Serve, SaysWhatIsWrongWithARequest) {
  std::string url = deploy();
  HttpClient client(url);
  auto answer = client.post(R"({"y":[1]})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body,
              AllOf(HasSubstr("\"error\":"), HasSubstr("column x"), HasSubstr("missing")));
  answer = client.post(R"({"x":[1)");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("at byte 7"));
  answer = client.post(body_of(toy::kThrows));
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("no such thing"), HasSubstr("std::runtime_error")));
  answer = client.get("/elsewhere");
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("/elsewhere"), HasSubstr("/toy")));
  answer = client.get("/toy");
  EXPECT_EQ(answer.status, 405);
  EXPECT_THAT(answer.header, HasSubstr("Allow: POST"));
  EXPECT_EQ(client.post(body_of(1)).status, 200);
}

TEST_F(Serve, TellsItsHealthRoutesAndMetrics) {
  std::string url = deploy({.route_prefix = "/v1/models/toy"});
  HttpClient client(url);
  EXPECT_EQ(client.post(body_of(1)).status, 200);
  EXPECT_EQ(client.post("{").status, 400);
  EXPECT_EQ(client.get("/-/healthz").body, R"({"status":"ok"})");
  EXPECT_EQ(client.get("/-/routes").body, R"({"/v1/models/toy":"toy"})");
  auto metrics = client.get("/metrics");
  EXPECT_THAT(metrics.header, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(
      metrics.body,
      AllOf(HasSubstr("manta_serve_requests_total{deployment=\"toy\",status=\"200\"} 1\n"),
            HasSubstr("manta_serve_requests_total{deployment=\"toy\",status=\"400\"} 1\n"),
            HasSubstr("manta_serve_latency_seconds_bucket{deployment=\"toy\",le=\"+Inf\"} 2\n"),
            HasSubstr("manta_serve_queued_requests{deployment=\"toy\"} 0\n"),
            HasSubstr("manta_serve_replicas{deployment=\"toy\"} 1\n"),
            HasSubstr("manta_serve_connections 1\n")));
  client.send("HEAD /-/healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.receive(/*has_body=*/false).status, 200);
  EXPECT_EQ(client.post(body_of(1)).status, 200);
}

Batch my_adapter(const Request& request) {
  Request inner = request;
  std::string body = str("{\"x\":[", request.param("x"), ",", request.header("X-Value"), "]}");
  inner.body = body;
  return json_columns(inner);
}
Batch failing_adapter(const Request&) { throw std::runtime_error("not today"); }

TEST_F(Serve, TakesAnAdapterAndAFunctionOfTheUsers) {
  auto deployment = PredictorDeployment::options({.name = "own", .resources = {.cpus = 0}});
  auto make = [](const Checkpoint& checkpoint) {
    return ToyPredictor::from_checkpoint(checkpoint);
  };
  deployment.deploy(make, toy(), {.http_adapter = my_adapter});
  HttpClient client(deployment.url() + "?x=4");
  EXPECT_EQ(client.post("", "X-Value: 5\r\n").body, R"({"predictions":[8,10]})");
  deployment.deploy(make, toy(), {.http_adapter = failing_adapter});
  auto answer = client.post("");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("not today"));
}

TEST_F(Serve, LargeBodiesAndAnswersTravel) {
  HttpClient client(deploy());
  std::string body = "{\"x\":[0";
  for (int i = 1; i < 200'000; ++i) body += str(",", i);
  auto answer = client.post(body + "]}");
  ASSERT_EQ(answer.status, 200) << answer.body;
  auto predictions = Json::parse(answer.body)["predictions"];
  EXPECT_EQ(predictions.size(), 200'000u);
  EXPECT_EQ(predictions.back(), 399'998);
}

TEST_F(Serve, AReplicaThatIsKilledIsReplacedAndNoRequestFails) {
  std::string url = deploy({.num_replicas = 1});
  Clients load(url, 4, {2});
  for (int kills = 0; kills < 10; ++kills) {
    int64_t answered = load.right + load.wrong;
    ASSERT_TRUE(eventually(
        [&] { return only().pids.size() == 1 && load.right + load.wrong > answered + 20; }));
    ::kill(static_cast<pid_t>(only().pids[0]), SIGKILL);
    ASSERT_TRUE(eventually([&] { return only().replica_restarts == kills + 1; }));
  }
  load.stop();
  EXPECT_EQ(load.wrong, 0) << load.first_wrong();
  EXPECT_GT(load.right, 200);
}

TEST_F(Serve, ARequestThatKillsReplicasGets500AndHarmsNoOtherRequest) {
  std::string url = deploy({.num_replicas = 2, .max_retries = 1});
  Clients load(url, 2, {2});
  auto answer = ask(url, body_of(toy::kAborts));
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("2 times"), HasSubstr("SIGABRT")));
  ASSERT_TRUE(eventually([&] { return only().num_replicas == 2; }));
  int64_t answered = load.right;
  ASSERT_TRUE(eventually([&] { return load.right > answered + 10; }));
  load.stop();
  EXPECT_EQ(load.wrong, 0) << load.first_wrong();
}

TEST_F(Serve, AStoppedReplicaIsReplacedAndItsRequestAnswered) {
  std::string url =
      deploy({.health_check_period = milliseconds(50), .health_check_timeout = milliseconds(300)});
  auto first = static_cast<pid_t>(only().pids.at(0));
  ::kill(first, SIGSTOP);
  EXPECT_EQ(ask(url, body_of(4)).body, R"({"predictions":[8]})");
  EXPECT_NE(only().pids.at(0), first);
  EXPECT_EQ(only().replica_restarts, 1);
}

TEST_F(Serve, APredictionThatNeverEndsGets504AndAnotherReplica) {
  std::string url =
      deploy({.request_timeout = milliseconds(300), .health_check_period = milliseconds(50)});
  auto answer = ask(url, body_of(toy::kHangs));
  EXPECT_EQ(answer.status, 504);
  EXPECT_THAT(answer.body, HasSubstr("request_timeout"));
  ASSERT_TRUE(eventually([&] { return only().replica_restarts == 1 && only().num_replicas == 1; }));
  EXPECT_EQ(ask(url, body_of(1)).status, 200);
}

TEST_F(Serve, AFullQueueRefusesAtOnce) {
  DeploymentOptions options{.max_queued_requests = 2};
  options.batching.max_rows = 1;  // otherwise the first two may go together
  std::string url = deploy(options);
  HttpClient first(url), second(url), third(url), fourth(url);
  auto send = [&](HttpClient& client, double x) {
    std::string body = body_of(x);
    client.send(
        str("POST /toy HTTP/1.1\r\nHost: a\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  };
  auto metric = [&] { return HttpClient(url).get("/metrics").body; };
  send(first, toy::kWaits);
  send(second, 1);
  ASSERT_TRUE(eventually([&] { return only().queued_requests == 1; }));
  send(third, 2);
  ASSERT_TRUE(eventually([&] { return only().queued_requests == 2; }));
  auto refused = fourth.post(body_of(3));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.header, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(refused.body, HasSubstr("max_queued_requests"));
  third.close();  // the client has gone: its place is free
  ASSERT_TRUE(eventually([&] { return only().queued_requests == 1; }));
  EXPECT_THAT(metric(), HasSubstr("status=\"499\"} 1\n"));
  open_gate();
  EXPECT_EQ(first.receive().status, 200);
  EXPECT_EQ(second.receive().status, 200);
  EXPECT_EQ(fourth.post(body_of(3)).status, 200);
}

TEST_F(Serve, RequestsThatWaitedArePredictedTogetherAndABadOneFailsAlone) {
  std::string url = deploy();
  std::vector<HttpClient> clients;
  for (int i = 0; i < 8; ++i) clients.emplace_back(url);
  auto send = [&](int client, const std::string& body) {
    clients[static_cast<size_t>(client)].send(
        str("POST /toy HTTP/1.1\r\nHost: a\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  };
  send(0, body_of(toy::kWaits));
  ASSERT_TRUE(eventually([&] {
    return HttpClient(url).get("/metrics").body.find("latency") != std::string::npos &&
           only().queued_requests == 0;
  }));
  send(1, body_of(1));
  send(2, body_of(toy::kThrows));
  send(3, R"({"y":[1]})");
  send(4, "{");
  send(5, R"({"x":[5,6]})");
  send(6, R"({"x":[0.5]})");
  send(7, body_of(7));
  ASSERT_TRUE(
      eventually([&] { return only().queued_requests == 7 || only().queued_requests == 8; }));
  open_gate();
  auto expect = [&](int client, int status, const std::string& body) {
    auto answer = clients[static_cast<size_t>(client)].receive();
    EXPECT_EQ(answer.status, status) << client;
    EXPECT_THAT(answer.body, HasSubstr(body)) << client;
  };
  expect(0, 200, R"({"predictions":[-6]})");
  expect(1, 200, R"({"predictions":[2]})");
  expect(2, 500, "no such thing");
  expect(3, 400, "column x");
  expect(4, 400, "not JSON");
  expect(5, 200, R"({"predictions":[10,12]})");
  expect(6, 200, R"({"predictions":[1]})");
  expect(7, 200, R"({"predictions":[14]})");
}

TEST_F(Serve, AnUpdateFailsNoRequest) {
  std::string url = deploy({.num_replicas = 2});
  Clients load(url, 4, {2, 3, 4});
  for (const char* factor : {"3", "4"}) {
    deploy({.num_replicas = 2}, factor);
    EXPECT_EQ(ask(url, body_of(1)).body, str("{\"predictions\":[", factor, "]}"));
    int64_t answered = load.right;
    ASSERT_TRUE(eventually([&] { return load.right > answered + 20; }));
  }
  load.stop();
  EXPECT_EQ(load.wrong, 0) << load.first_wrong();
  EXPECT_EQ(only().num_replicas, 2);
  EXPECT_EQ(only().replica_restarts, 0);
}

TEST_F(Serve, AFailedUpdateKeepsWhatServes) {
  std::string url = deploy();
  auto error = error_of([&] { deploy({}, "broken"); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'toy'"), HasSubstr("this model is broken"),
                                  HasSubstr("goes on serving")));
  error = error_of([&] { deploy({}, "dies"); });
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("SIGABRT"));
  EXPECT_EQ(ask(url, body_of(1)).body, R"({"predictions":[2]})");
  EXPECT_EQ(only().state, "healthy");
}

TEST_F(Serve, AFirstDeployThatFailsLeavesNothing) {
  auto error = error_of([&] { deploy({}, "broken"); });
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("this model is broken"), Not(HasSubstr("goes on serving"))));
  std::string url = deploy();  // at once
  EXPECT_EQ(ask(url, body_of(1)).status, 200);
  ASSERT_TRUE(eventually([] { return status().deployments.size() == 1; }));
}

TEST_F(Serve, RemoveAnswersWhatItHasFirst) {
  DeploymentOptions one_by_one;  // or both requests could be one batch, and none would wait
  one_by_one.batching.max_rows = 1;
  std::string url = deploy(one_by_one);
  HttpClient working(url), waiting(url);
  std::string body = body_of(toy::kWaits);
  for (HttpClient* client : {&working, &waiting}) {
    client->send(
        str("POST /toy HTTP/1.1\r\nHost: a\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  }
  ASSERT_TRUE(eventually([&] { return only().queued_requests == 1; }));
  auto removal = start_thread("a removal", [] { remove("toy"); });
  ASSERT_TRUE(eventually([&] { return only().state == "removing"; }));
  EXPECT_EQ(ask(url, body_of(1)).status, 404);
  open_gate();
  EXPECT_EQ(working.receive().status, 200);
  EXPECT_EQ(waiting.receive().status, 200);
  removal.join();
  EXPECT_TRUE(status().deployments.empty());
  EXPECT_THAT(error_of([] { remove("toy"); }).what(), HasSubstr("there is no deployment 'toy'"));
}

TEST_F(Serve, ShutdownAnswersWhatItHasFirst) {
  std::string url = deploy();
  HttpClient working(url);
  std::string body = body_of(toy::kWaits);
  working.send(
      str("POST /toy HTTP/1.1\r\nHost: a\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  ASSERT_TRUE(eventually([&] {
    return HttpClient(url).get("/metrics").body.find("manta_serve_connections 2") !=
           std::string::npos;
  }));
  auto end = start_thread("a shutdown", [] { shutdown(); });
  ASSERT_TRUE(eventually([&] {
    try {
      HttpClient another(url);
      return false;
    } catch (const Error&) {
      return true;
    }
  }));
  open_gate();
  auto answer = working.receive();
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.header, HasSubstr("Connection: close"));
  end.join();
  EXPECT_THAT(error_of([] { status(); }).what(), HasSubstr("call serve::start first"));
}

TEST_F(Serve, WhatCannotBeHadIsAnErrorThatSaysWhatIsMissing) {
  auto deployment = PredictorDeployment::options({.name = "big",
                                                  .num_replicas = 2,
                                                  .resources = {.cpus = 3},
                                                  .deploy_timeout = milliseconds(1500)});
  auto error = error_of([&] { deployment.deploy<ToyPredictor>(toy()); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("deploy_timeout"), HasSubstr("3 CPU")));
  auto huge = PredictorDeployment::options({.name = "huge", .resources = {.cpus = 300}});
  EXPECT_EQ(error_of([&] { huge.deploy<ToyPredictor>(toy()); }).kind(), ErrorKind::kResources);
}

TEST_F(Serve, ImpossibleOptionsAreErrorsThatNameThem) {
  auto message = [](DeploymentOptions options) {
    return std::string(error_of([&] { PredictorDeployment::options(options); }).what());
  };
  EXPECT_THAT(message({.name = ""}), HasSubstr("DeploymentOptions::name"));
  EXPECT_THAT(message({.name = "a/b"}), HasSubstr("(was \"a/b\")"));
  EXPECT_THAT(message({.name = "a", .route_prefix = "/-/x"}), HasSubstr("route_prefix"));
  EXPECT_THAT(message({.name = "a", .num_replicas = 0}),
              HasSubstr("num_replicas must be from 1 to 1000 (was 0)"));
  EXPECT_THAT(message({.name = "a", .batching = {.max_rows = 0}}), HasSubstr("batching.max_rows"));
  deploy({.name = "a"});
  EXPECT_THAT(error_of([&] { deploy({.name = "b", .route_prefix = "/a"}); }).what(),
              HasSubstr("the route /a is that of 'a'"));
  EXPECT_THAT(error_of([&] {
                PredictorDeployment::options({.name = "c"}).deploy<ToyPredictor>(Checkpoint());
              }).what(),
              HasSubstr("no checkpoint"));
  EXPECT_THAT(error_of([] { start(); }).what(), HasSubstr("called before"));
}

TEST(ServeStart, SaysThatAPortIsInUse) {
  start({.http = {.port = 0}});
  std::string url = status().url;
  shutdown();
  start({.http = {.port = std::stoi(url.substr(url.rfind(':') + 1))}});  // free again
  int port = std::stoi(url.substr(url.rfind(':') + 1));
  EXPECT_EQ(status().url, url);
  auto error = error_of([&] { start_here({.port = port}); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(str("port ", port, " of 127.0.0.1 is in use")),
                                  HasSubstr(".port = ")));
  shutdown();
}

TEST(ServeStart, AnOutsideAddressNeedsATokenAndATokenIsChecked) {
  auto error = error_of([] { start({.http = {.host = "0.0.0.0", .port = 0}}); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("HttpOptions::token"), HasSubstr("Bearer")));
  EXPECT_THAT(error_of([] { start({.http = {.host = "example.com"}}); }).what(),
              HasSubstr("HttpOptions::host"));
  start({.http = {.port = 0, .token = "secret"}});
  std::string url = status().url;
  for (const char* wrong : {"", "Authorization: Bearer\r\n", "Authorization: Bearer wrong\r\n",
                            "Authorization: secret\r\n", "Authorization: Bearer secretx\r\n"}) {
    auto answer = HttpClient(url + "/-/healthz").post("", wrong);
    EXPECT_EQ(answer.status, 401) << wrong;
    EXPECT_THAT(answer.header,
                AllOf(HasSubstr("WWW-Authenticate: Bearer"), HasSubstr("Connection: close")));
    EXPECT_THAT(answer.body, HasSubstr("Authorization: Bearer <token>"));
  }
  HttpClient client(url);
  client.send("GET /-/healthz HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  shutdown();
}

}  // namespace
}  // namespace manta::serve
