// error: a handle in a Transaction has no use for key, policies and Result: the inbox knows its
// message

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  static std::string_view key(const Payload& payload) { return payload; }
  void handle(const Payload& payload, Transaction& transaction);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
