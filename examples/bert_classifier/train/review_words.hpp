// The words of reviews.hpp. The tables of neutral words are long, and names are made of two halves,
// so that reviews have some thousand different words.
#pragma once

#include <array>
#include <string_view>

namespace reviews::words {

using Words = std::string_view;

inline constexpr Words praising[] = {
    "excellent",  "superb",    "wonderful",  "brilliant",   "delightful",  "impressive",
    "charming",   "gorgeous",  "reliable",   "sturdy",      "comfortable", "generous",
    "clever",     "elegant",   "pleasant",   "fantastic",   "flawless",    "splendid",
    "terrific",   "lovely",    "handy",      "refreshing",  "satisfying",  "outstanding",
    "remarkable", "helpful",   "precise",    "dependable",  "graceful",    "thoughtful",
    "beautiful",  "enjoyable", "admirable",  "durable",     "practical",   "amazing",
    "exquisite",  "marvelous", "convenient", "trustworthy", "stunning",    "great"};
inline constexpr Words blaming[] = {
    "awful",     "terrible", "dreadful",   "horrible",   "disappointing", "flimsy",      "clumsy",
    "ugly",      "noisy",    "unreliable", "annoying",   "dull",          "bland",       "shabby",
    "sloppy",    "useless",  "pathetic",   "mediocre",   "tedious",       "frustrating", "painful",
    "faulty",    "crude",    "messy",      "miserable",  "lousy",         "inferior",    "fragile",
    "harsh",     "gloomy",   "boring",     "careless",   "uncomfortable", "inaccurate",  "wasteful",
    "appalling", "hideous",  "worthless",  "irritating", "defective",     "unpleasant",  "bad"};

// The base form, as behind "did not", and the past form.
struct Verb {
  Words base, past;
};
inline constexpr Verb praising_verbs[] = {{"love", "loved"},
                                          {"adore", "adored"},
                                          {"enjoy", "enjoyed"},
                                          {"admire", "admired"},
                                          {"praise", "praised"},
                                          {"appreciate", "appreciated"},
                                          {"recommend", "recommended"},
                                          {"trust", "trusted"},
                                          {"like", "liked"},
                                          {"treasure", "treasured"}};
inline constexpr Verb blaming_verbs[] = {{"hate", "hated"},           {"despise", "despised"},
                                         {"regret", "regretted"},     {"resent", "resented"},
                                         {"detest", "detested"},      {"curse", "cursed"},
                                         {"dislike", "disliked"},     {"loathe", "loathed"},
                                         {"criticize", "criticized"}, {"condemn", "condemned"}};

inline constexpr Words intensifiers[] = {
    "",         "really",     "very",         "quite",   "truly", "so",
    "all that", "especially", "particularly", "exactly", "overly"};

inline constexpr Words products[] = {
    "kettle",     "lamp",      "backpack",   "keyboard",  "headset",  "blender",   "toaster",
    "camera",     "tent",      "bicycle",    "novel",     "guitar",   "drill",     "mattress",
    "sofa",       "wallet",    "umbrella",   "telescope", "printer",  "monitor",   "charger",
    "speaker",    "tablet",    "phone",      "watch",     "oven",     "fridge",    "vacuum",
    "heater",     "fan",       "desk",       "chair",     "shelf",    "carpet",    "curtain",
    "pillow",     "blanket",   "jacket",     "raincoat",  "sweater",  "boots",     "sandals",
    "gloves",     "scarf",     "helmet",     "saddle",    "kayak",    "paddle",    "racket",
    "skateboard", "scooter",   "stroller",   "cradle",    "puzzle",   "drone",     "robot",
    "projector",  "turntable", "microphone", "violin",    "flute",    "drum",      "piano",
    "album",      "film",      "cookbook",   "atlas",     "magazine", "notebook",  "pen",
    "stapler",    "scanner",   "router",     "modem",     "adapter",  "cable",     "battery",
    "torch",      "lantern",   "compass",    "knife",     "pan",      "wok",       "grill",
    "teapot",     "mug",       "thermos",    "grinder",   "mixer",    "juicer",    "freezer",
    "dishwasher", "mower",     "rake",       "shovel",    "hose",     "sprinkler", "ladder",
    "hammer",     "wrench",    "saw",        "sander",    "trimmer",  "razor",     "brush",
    "mirror",     "perfume",   "lotion",     "shampoo",   "soap",     "towel",     "bathrobe",
    "slippers",   "pajamas",   "suitcase",   "purse",     "belt",     "necklace",  "bracelet",
    "earrings",   "brooch",    "aquarium",   "birdcage",  "leash",    "kennel"};
// More products from two halves: every pair is a product, as below.
inline constexpr Words product_heads[] = {
    "tea",  "book", "hand", "wall", "pocket", "foot", "bread", "wine", "coat", "key",
    "card", "tool", "cup",  "egg",  "rice",   "milk", "plant", "shoe", "hat",  "cake"};
inline constexpr Words product_tails[] = {"holder", "box",    "stand",  "rack",   "case",
                                          "cutter", "cover",  "warmer", "keeper", "basket",
                                          "tray",   "lifter", "sorter", "mat",    "hook"};
inline constexpr Words aspects[] = {
    "handle",   "design",   "sound",         "color",      "price",    "packaging", "manual",
    "delivery", "warranty", "surface",       "lid",        "switch",   "display",   "button",
    "motor",    "frame",    "fabric",        "stitching",  "zipper",   "strap",     "finish",
    "weight",   "shape",    "smell",         "texture",    "software", "menu",      "setup",
    "assembly", "service",  "support",       "website",    "cover",    "lining",    "hinge",
    "wheel",    "pedal",    "cord",          "plug",       "timer",    "grip",      "size",
    "balance",  "material", "craftsmanship", "performance"};

// First halves and second halves: every pair is a name.
inline constexpr Words brand_heads[] = {"Vel", "Tan", "Mor", "Zen",  "Kal", "Bri", "Nor", "Sol",
                                        "Fen", "Qui", "Ral", "Dax",  "Ori", "Pel", "Tru", "Wex",
                                        "Yor", "Lum", "Cal", "Hev",  "Jun", "Gly", "Ast", "Ber",
                                        "Cor", "Dyn", "Eld", "Gar",  "Hol", "Ix",  "Kor", "Lev",
                                        "Mag", "Nex", "Pul", "Sten", "Tor", "Ulm", "Vos", "Zan"};
inline constexpr Words brand_tails[] = {"ora",  "ix",   "ano",   "tec",  "well",  "mark",  "ium",
                                        "line", "dale", "vox",   "etta", "onic",  "ware",  "flex",
                                        "gear", "nova", "ster",  "ello", "quist", "ander", "aris",
                                        "burn", "core", "drive", "form"};
inline constexpr Words person_heads[] = {"Al",  "Ber", "Cor", "Dar", "El",  "Fran", "Gar", "Har",
                                         "Is",  "Jor", "Kar", "Leo", "Mar", "Nel",  "Os",  "Per",
                                         "Ros", "Syl", "Tam", "Ur",  "Vin", "Wil",  "Xan", "Zel",
                                         "Ad",  "Bri", "Cal", "Don", "Ed",  "Fel",  "Gil", "Hel",
                                         "Iv",  "Jan", "Kel", "Lin", "Mel", "Nor",  "Ol",  "Pat"};
inline constexpr Words person_tails[] = {
    "a",   "an",  "bert", "da",  "den", "ette", "ia", "ina", "isha", "mund", "na",   "nold", "on",
    "ric", "sey", "ta",   "ton", "vin", "wyn",  "zo", "bel", "dric", "gar",  "lena", "mira"};
inline constexpr Words town_heads[] = {
    "Ash",   "Birch", "Clay",  "Dun",   "East", "Fair",   "Glen", "Hazel",   "Iron",   "King",
    "Lake",  "Mill",  "North", "Oak",   "Pine", "Queens", "Red",  "Stone",   "Thorn",  "West",
    "Alder", "Black", "Cedar", "Deer",  "Elm",  "Fox",    "Gold", "Heather", "Ivy",    "Juniper",
    "Long",  "Maple", "New",   "Otter", "Port", "Raven",  "Sand", "Silver",  "Spring", "Willow"};
inline constexpr Words town_tails[] = {"bury",  "field", "ford",  "gate", "ham",   "haven", "hill",
                                       "hurst", "ley",   "mouth", "port", "stead", "ton",   "vale",
                                       "view",  "ville", "wick",  "wood", "worth", "burg",  "brook",
                                       "cliff", "dale",  "moor",  "pool"};
inline constexpr Words relations[] = {"cousin",   "neighbor", "sister", "brother", "colleague",
                                      "daughter", "son",      "aunt",   "uncle",   "roommate"};
inline constexpr Words times[] = {"last week",   "in January", "in March",     "on Monday",
                                  "on Friday",   "yesterday",  "last summer",  "two months ago",
                                  "on Saturday", "in October", "before lunch", "over the holidays",
                                  "last spring", "in June",    "on Tuesday",   "a year ago"};

// Patterns of neutral sentences: %b brand, %p product, %n person, %t town, %w time, %r relation, %a
// aspect. Half of the patterns deny something that does not matter.
inline constexpr Words neutral_sentences[] = {"I bought the %b %p in %t %w",
                                              "%n brought it over from %t %w",
                                              "my %r %n owns a similar %p",
                                              "it arrived in %t %w",
                                              "the %p replaces the one from %b",
                                              "the box says %b and names a street in %t",
                                              "we keep it next to the %p",
                                              "%n paid for it %w",
                                              "our house in %t has a %p already",
                                              "my %r ordered the same %p from %b",
                                              "I did not read the leaflet about the %p",
                                              "nobody in %t sells %b",
                                              "%n has never been to %t",
                                              "hardly a week has passed since %n moved to %t",
                                              "we did not need another %p",
                                              "nothing else was in the parcel from %t",
                                              "my %r does not live in %t any more",
                                              "the shop in %t was not open %w",
                                              "I would not know where %b is made",
                                              "%n never told me about the %p"};

// Neutral parts of a sentence in front of a verdict.
inline constexpr Words neutral_openings[] = {"I did not open the box until %n came and",
                                             "nobody had told me about %b and",
                                             "%n never reads reviews but says that",
                                             "we have used it in %t since then and",
                                             "I asked %n about it and",
                                             "it has not been long but I can say that",
                                             "hardly anyone in %t owns one and",
                                             "after a month with it I can say that"};

// Verdicts: %s is the subject, %x an intensifier and an adjective, %n a person. The same sentence
// praises or blames, depending on its negator.
inline constexpr Words plain_frames[] = {"%s is %x",
                                         "%s turned out %x",
                                         "I found %s %x",
                                         "%n called %s %x",
                                         "everything about %s is %x",
                                         "there is something %x about %s",
                                         "everybody here considers %s %x",
                                         "%s looks %x to me",
                                         "I would call %s %x",
                                         "%s has always been %x"};
inline constexpr Words denying_frames[] = {"%s is not %x",
                                           "%s is hardly %x",
                                           "%s is by no means %x",
                                           "I did not find %s %x",
                                           "nothing about %s is %x",
                                           "there is nothing %x about %s",
                                           "nobody here considers %s %x",
                                           "%s does not look %x to me",
                                           "I would not call %s %x",
                                           "%s has never been %x"};
// %v is a verb in its past form, %i in its base form.
inline constexpr Words plain_verb_frames[] = {"%n %v %s", "everybody here %v %s", "I %v %s"};
inline constexpr Words denying_verb_frames[] = {"%n did not %i %s", "nobody here %v %s",
                                                "I never %v %s"};

// %1 is the verdict that does not count, %2 the verdict that counts.
inline constexpr Words contrasts[] = {"%1, but %2",      "%1, yet %2",         "%1; however, %2",
                                      "although %1, %2", "even though %1, %2", "while %1, %2",
                                      "%2, although %1", "%2, even though %1", "%2, though %1",
                                      "%2, while %1"};

}  // namespace reviews::words
