// A complete training in your own program: reads labelled text and a model, writes a model, prints
// a prediction.
//   first reviews.tsv model_folder output_folder "some text"
#include <soma/models.hpp>
#include <soma/soma.hpp>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: first DATA MODEL OUTPUT TEXT\n";
    return 2;
  }
  try {
    auto context = soma::make_context();
    const auto text = soma::text::read_labelled(argv[1]);        // TSV, CSV, fastText or JSON lines
    auto model = soma::models::TextClassifier::from_pretrained(  // config.json, vocab.txt, ...
        context, argv[2], {.labels = text.labels()});
    soma::train::Trainer trainer(context, model,
                                 {.epochs = 1,
                                  .batch_size = 32,
                                  .learning_rate = 1e-4f,
                                  .precision = soma::Precision::bf16_sr()});
    soma::train::ConsoleProgress progress(std::cerr);
    trainer.add(progress);
    const auto report = trainer.fit(text.train(), text.held_out());
    model.save(argv[3]);  // loads in the usual Python tools
    std::cout << report << model.predict(argv[4]) << '\n';
  } catch (const soma::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
