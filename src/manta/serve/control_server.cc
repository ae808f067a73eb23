#include "manta/base/random_token_internal.h"
#include "manta/serve/control_server_internal.h"

namespace manta::serve {
namespace {

Done replying_on(const std::shared_ptr<AsyncChannel>& channel) {
  return [weak = std::weak_ptr<AsyncChannel>(channel)](const std::optional<Error>& error) {
    auto open = weak.lock();
    if (!open) return;  // the program has ended meanwhile
    Reply reply;
    if (error) reply = {false, error->kind(), error->what(), {}};
    encode_message<FromFront>(open->out(), reply);
    open->flush();
  };
}

}  // namespace

ControlServer::ControlServer(Front& front, const std::string& path, std::string token,
                             std::function<void()> on_shutdown)
    : front_(front),
      token_(std::move(token)),
      on_shutdown_(std::move(on_shutdown)),
      listener_(front.loop(), path,
                [this](const auto& channel, Frame& frame) { on_greeting(channel, frame); }) {}

void ControlServer::on_greeting(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
  auto message = decode_message<ToFront>(frame);
  auto* greeting = std::get_if<Greeting>(&message);
  if (!greeting || !same_secret(greeting->token, token_)) {
    throw Error(ErrorKind::kInvalidArgument, "no greeting with the right token");
  }
  if (greeting->protocol != kControlProtocol) {
    throw Error(ErrorKind::kInvalidArgument, "a program of another version of Manta");
  }
  channel->trust();
  // Its own callbacks keep the channel alive, until the program closes it.
  channel->start([this, channel](Frame& next) { on_request(channel, next); },
                 [](const std::string&) {});
  Welcome welcome{program_build_id(), front_.http_options()};
  welcome.http.token.clear();
  encode_message<FromFront>(channel->out(), welcome);
}

void ControlServer::on_request(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
  auto message = decode_message<ToFront>(frame);
  Done done = replying_on(channel);
  try {
    if (auto* deploy = std::get_if<AskDeploy>(&message)) {
      front_.deploy(std::move(deploy->spec), done);
    } else if (auto* remove = std::get_if<AskRemove>(&message)) {
      front_.remove(remove->name, done);
    } else if (std::get_if<AskStatus>(&message)) {
      Reply reply;
      reply.status = front_.status();
      reply.status.detached = true;
      encode_message<FromFront>(channel->out(), reply);
    } else if (std::get_if<AskShutdown>(&message)) {
      front_.drain([this, done](const std::optional<Error>& error) {
        done(error);
        on_shutdown_();
      });
    } else {
      throw Error(ErrorKind::kCorrupt, "a second greeting");
    }
  } catch (const Error& error) {
    done(error);
  }
}

}  // namespace manta::serve
