#include "argosy/store/greeting.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::store {

namespace {

constexpr char kModeSecret = 's';
constexpr char kModeOpen = 'o';

Secret greeting_key(const Credentials& credentials) {
  return credentials.secret.value_or(Secret::none())
      .derived("argosy store greeting");
}

char mode_of(const Credentials& credentials) {
  return credentials.secret ? kModeSecret : kModeOpen;
}

// Everything that both sides have said. All fields but the last have a fixed
// size, so that no two transcripts give the same text.
struct Transcript {
  char client_mode;
  char server_mode;
  std::string_view client_nonce;
  std::string_view server_nonce;
  std::string_view instance;
  std::string_view binding;

  std::string proof(const Secret& key, std::string_view who) const {
    return key.mac(
        str(who,
            kHello,
            client_mode,
            server_mode,
            client_nonce,
            server_nonce,
            instance,
            binding));
  }
};

constexpr std::string_view kServer = "server";
constexpr std::string_view kClient = "client";

// Whether what has arrived may become kHello.
bool may_be_hello(std::string_view in) {
  const std::size_t size = std::min(in.size(), kHello.size());
  return in.substr(0, size) == kHello.substr(0, size);
}

} // namespace

std::string_view to_string(Distrust reason) {
  switch (reason) {
    case Distrust::Foreign:
      return "another protocol";
    case Distrust::NoSecret:
      return "no secret";
    case Distrust::Proof:
      return "a wrong secret";
  }
  return "unknown";
}

ServerGreeting::ServerGreeting(
    const Credentials& credentials, std::string instance)
    : key_(greeting_key(credentials)),
      mode_(mode_of(credentials)),
      instance_(std::move(instance)),
      nonce_(random_bytes(kNonceBytes)) {}

ServerGreeting::State ServerGreeting::fail(Distrust reason) {
  distrust_ = reason;
  return state_ = State::Failed;
}

ServerGreeting::State ServerGreeting::open(
    std::string& in, std::string& out, std::string_view binding) {
  if (!may_be_hello(in)) {
    // A client of another version gets our greeting, so that it can report it.
    if (in.starts_with(kHelloName)) {
      out += kHello;
    }
    return fail(Distrust::Foreign);
  }
  if (in.size() < kOpeningBytes) {
    return state_;
  }
  const char client_mode = in[kHello.size()];
  const std::string client_nonce = in.substr(kHello.size() + 1, kNonceBytes);
  in.erase(0, kOpeningBytes);
  const Transcript transcript{
      client_mode, mode_, client_nonce, nonce_, instance_, binding};
  // Also to a client that has no secret, so that it can say what it lacks.
  out.append(kHello).append(1, mode_).append(nonce_).append(instance_);
  out += transcript.proof(key_, kServer);
  if (mode_ == kModeSecret && client_mode != kModeSecret) {
    return fail(Distrust::NoSecret);
  }
  expected_proof_ = transcript.proof(key_, kClient);
  return state_ = State::Proof;
}

ServerGreeting::State ServerGreeting::advance(
    std::string& in, std::string& out, std::string_view binding) {
  if (state_ == State::Opening) {
    open(in, out, binding);
  }
  if (state_ == State::Proof && in.size() >= kProofBytes) {
    const bool right = equal_bytes(
        std::string_view(in).substr(0, kProofBytes), expected_proof_);
    in.erase(0, kProofBytes);
    if (!right) {
      return fail(Distrust::Proof);
    }
    state_ = State::Proven;
  }
  return state_;
}

ClientGreeting::ClientGreeting(const Credentials& credentials)
    : key_(greeting_key(credentials)),
      mode_(mode_of(credentials)),
      nonce_(random_bytes(kNonceBytes)) {}

std::string ClientGreeting::opening() const {
  return str(kHello, mode_, nonce_);
}

ClientGreeting::Accepted ClientGreeting::accept(
    std::string_view answer,
    std::string_view server,
    std::string_view binding) const {
  ARGOSY_ASSERT(answer.size() == kAnswerBytes, answer.size());
  answer.remove_prefix(kHello.size());
  const char server_mode = answer[0];
  answer.remove_prefix(1);
  const Transcript transcript{
      mode_,
      server_mode,
      nonce_,
      answer.substr(0, kNonceBytes),
      answer.substr(kNonceBytes, kInstanceBytes),
      binding};
  if (mode_ == kModeOpen && server_mode == kModeSecret) {
    throw StoreError(str_format(
        "[store.connect] {} asks for the secret of its job, and this process "
        "has none, expected ARGOSY_SECRET_FILE or ARGOSY_SECRET",
        server));
  }
  const auto proof = answer.substr(kNonceBytes + kInstanceBytes);
  if (!equal_bytes(proof, transcript.proof(key_, kServer))) {
    throw StoreError(str_format(
        "[store.connect] {} does not know the secret of this job{}, expected "
        "the same secret on both sides",
        server,
        server_mode == kModeOpen ? ": it has none" : ""));
  }
  return {transcript.proof(key_, kClient), std::string(transcript.instance)};
}

} // namespace argosy::store
