//! The phrases of the lexicon, by language and meaning. [`super::lexicon`] weighs the words around them. A `$` at the
//! end of a phrase matches only the end of a clause.

use super::codes::ReasonCode::{
    self, ActiveIdeation, Distress, HarmToOthers, Hopelessness, Overdose, PassiveIdeation, PlanOrMeans,
    SelfHarm, ThirdParty,
};
use super::lexicon::PhraseSubject::{self, Me, Open, Other};

/// Level, reason, whom the words speak of, and the words.
pub(super) type PhraseRow = (u8, ReasonCode, PhraseSubject, &'static [&'static str]);

pub(super) const ENGLISH: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Me,
        &[
            "kill myself", "kill my self", "killing myself", "killed myself", "kms", "end my life",
            "end my own life", "ending my life", "take my life", "take my own life", "taking my own life",
            "end it all", "ending it all", "hang myself", "hanging myself", "shoot myself", "drown myself",
            "unalive myself", "off myself$", "jump off a bridge", "jump off the bridge", "jump off a roof",
            "jump in front of a train", "jump in front of the train",
        ],
    ),
    (3, ActiveIdeation, Open, &["commit suicide", "committing suicide", "going to do suicide"]),
    (
        3,
        PlanOrMeans,
        Open,
        &[
            "slit my wrists", "cut my wrists", "suicide note", "suicide plan", "plan my suicide",
            "planning my suicide", "planned my suicide", "have the pills ready",
        ],
    ),
    (
        3,
        Overdose,
        Open,
        &[
            "overdosed on", "took an overdose", "taken an overdose", "take an overdose", "took all my pills",
            "took the whole bottle of pills", "took a whole bottle of pills", "take all my pills",
            "swallowed all my pills", "took too many pills", "taken too many pills",
            "swallowed too many pills",
        ],
    ),
    (
        2,
        PassiveIdeation,
        Open,
        &[
            "want to die", "wanna die", "wanted to die", "want to be dead", "wish i was dead",
            "wish i were dead", "wish i wasn't alive", "wish i had never been born",
            "wish i'd never been born", "wish i was never born", "better off dead", "better off without me",
            "better off if i were dead", "better off if i was dead", "better off if i wasn't here",
            "don't want to live", "don't wanna live", "do not want to live",
            "don't want to live in this world", "don't want to live on this planet",
            "don't want to be alive", "do not want to be alive", "don't want to exist",
            "don't want to be here anymore", "no longer want to live", "don't feel like living",
            "no reason to live", "nothing to live for", "not worth living", "isn't worth living",
            "what's the point of living", "no point in living", "tired of living", "tired of being alive",
            "don't want to wake up$", "don't want to wake up anymore", "never wake up again",
            "never wake up$", "nobody would miss me", "no one would miss me", "painless way to die",
            "easiest way to die", "ways to kill yourself", "suicidal", "suicidal thoughts",
            "thoughts of suicide", "thought of suicide", "thinking about suicide", "thinking of suicide",
            "think about suicide", "considering suicide", "feel like dying", "hope i die", "ready to die",
            "give up on life", "giving up on life", "want to end it$", "want everything to end$",
        ],
    ),
    (
        2,
        SelfHarm,
        Me,
        &[
            "cut myself", "cutting myself", "harm myself", "harming myself", "hurting myself",
            "want to hurt myself", "going to hurt myself", "hurt myself on purpose", "self harm", "selfharm",
        ],
    ),
    (
        2,
        HarmToOthers,
        Open,
        &[
            "want to kill him", "want to kill her", "want to kill them", "want to kill someone",
            "want to kill people", "want to kill everyone", "going to kill him", "going to kill her",
            "going to kill them", "going to kill someone", "going to shoot everyone",
        ],
    ),
    (1, HarmToOthers, Open, &["could kill him", "could kill her", "wants to kill me"]),
    (
        1,
        Hopelessness,
        Open,
        &[
            "hopeless", "can't go on$", "can't go on like this", "can't go on anymore",
            "can't take it anymore", "can't take it any more", "can't take this anymore",
            "can't do this anymore", "can't cope$", "no way out$", "hate my life", "life is pointless",
            "life is meaningless", "nothing matters anymore", "want to give up$", "want to disappear",
            "wish i could disappear", "no point anymore$", "just want it to stop$", "want the pain to stop",
            "dying inside", "dead inside", "feel worthless", "i'm worthless", "i'm a burden",
        ],
    ),
    (1, Distress, Open, &["panic attack", "i'm falling apart", "having a breakdown", "suicide"]),
    (1, SelfHarm, Me, &["hurt myself"]),
    (1, PlanOrMeans, Open, &["lethal dose"]),
    (
        1,
        ThirdParty,
        Other,
        &[
            "kill himself", "kill herself", "kill themselves", "kill themself", "killing himself",
            "killing herself", "killed himself", "killed herself", "killed themselves", "kills himself",
            "kills herself", "end his life", "end her life", "end their life", "took his own life",
            "took her own life", "took their own life", "wants to die", "committed suicide",
            "commits suicide", "hanged himself", "hanged herself", "hurting himself", "hurting herself",
            "cutting herself", "cutting himself",
        ],
    ),
];

pub(super) const GERMAN: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Open,
        &[
            "mich umbringen", "mich umzubringen", "bringe mich um", "bring mich um", "mich selbst umbringen",
            "mich töten", "mich zu töten", "mir das leben nehmen", "mir das leben zu nehmen",
            "nehme mir das leben", "mein leben beenden", "meinem leben ein ende", "mich erhängen",
            "mich erschießen", "mich aufhängen", "vor den zug werfen", "vor den zug springen",
            "von der brücke springen", "selbstmord begehen", "suizid begehen", "begehe selbstmord",
        ],
    ),
    (3, PlanOrMeans, Open, &["die pulsadern aufschneiden", "meine pulsadern", "abschiedsbrief geschrieben"]),
    (
        3,
        Overdose,
        Open,
        &[
            "überdosis genommen", "zu viele tabletten genommen", "alle tabletten genommen",
            "tabletten geschluckt",
        ],
    ),
    (
        2,
        PassiveIdeation,
        Open,
        &[
            "will sterben", "will ich sterben", "möchte sterben", "möchte ich sterben",
            "will einfach sterben", "will nur noch sterben", "will nicht mehr leben",
            "will ich nicht mehr leben", "möchte nicht mehr leben", "möchte ich nicht mehr leben",
            "mag nicht mehr leben", "will nicht leben", "nicht mehr leben will", "nicht mehr leben möchte",
            "nicht mehr leben$", "will tot sein", "ich wäre tot", "wäre lieber tot", "wäre ich tot",
            "wäre ich doch tot", "ohne mich besser dran", "besser ohne mich", "keinen grund zu leben",
            "keinen grund mehr zu leben", "lebensmüde", "keine lust mehr zu leben", "des lebens müde",
            "suizidgedanken", "selbstmordgedanken", "suizidal", "nicht mehr aufwachen",
        ],
    ),
    (
        2,
        SelfHarm,
        Me,
        &[
            "mich selbst verletzen", "mich selbst zu verletzen", "verletze mich selbst", "mich ritzen",
            "mich geritzt", "ritze mich",
        ],
    ),
    (
        1,
        Hopelessness,
        Open,
        &[
            "hoffnungslos", "kann nicht mehr$", "kann einfach nicht mehr$", "halte es nicht mehr aus",
            "halte das nicht mehr aus", "hasse mein leben", "keinen ausweg",
        ],
    ),
    (1, HarmToOthers, Me, &["bringe dich um", "bringe ihn um", "bringe sie um"]),
    (1, ActiveIdeation, Open, &["mich nicht umbringen", "mich nicht töten"]),
    (1, Distress, Open, &["panikattacke", "selbstmord", "suizid"]),
    (
        1,
        ThirdParty,
        Other,
        &[
            "sich umbringen", "sich umgebracht", "sich umzubringen", "bringt sich um",
            "sich das leben nehmen", "sich das leben genommen", "sich selbst verletzt",
        ],
    ),
];

pub(super) const FRENCH: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Open,
        &[
            "me tuer", "me suicider", "mettre fin à mes jours", "mettre fin à ma vie",
            "en finir avec la vie", "en finir avec ma vie", "m'ôter la vie", "me pendre$", "me jeter sous",
            "me jeter d'un pont", "me tirer une balle", "je vais en finir", "je me tue$",
        ],
    ),
    (3, PlanOrMeans, Me, &["m'ouvrir les veines", "me couper les veines", "me tailler les veines"]),
    (
        3,
        Overdose,
        Open,
        &[
            "avalé trop de médicaments", "avalé tous mes médicaments", "pris trop de médicaments",
            "avalé tous mes cachets",
        ],
    ),
    (
        2,
        PassiveIdeation,
        Me,
        &[
            "veux mourir", "voudrais mourir", "envie de mourir", "veux plus vivre", "envie de vivre",
            "veux pas vivre", "préférerais être mort", "préférerais être morte", "aimerais être mort",
            "aimerais être morte", "plus de raison de vivre", "aucune raison de vivre",
            "pas de raison de vivre", "idées suicidaires", "pense au suicide", "penser au suicide",
            "pense à mourir", "pensées suicidaires", "mieux sans moi", "marre de vivre", "fatigué de vivre",
            "fatiguée de vivre", "plus me réveiller", "je veux en finir",
        ],
    ),
    (2, PassiveIdeation, Open, &["suicidaire"]),
    (2, SelfHarm, Me, &["me faire du mal", "me mutiler", "me scarifier", "je me scarifie", "je me mutile"]),
    (
        1,
        Hopelessness,
        Open,
        &[
            "désespoir", "désespéré", "désespérée", "n'en peux plus$", "j'en peux plus$", "déteste ma vie",
            "je suis à bout$", "voudrais disparaître",
        ],
    ),
    (1, Distress, Open, &["crise de panique", "crise d'angoisse", "suicide"]),
    (
        1,
        ThirdParty,
        Other,
        &[
            "se tuer", "se suicider", "s'est suicidé", "s'est suicidée", "s'est tué", "s'est tuée",
            "veut mourir", "veut me tuer",
        ],
    ),
];

pub(super) const SPANISH: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Me,
        &[
            "matarme", "me voy a matar", "suicidarme", "quitarme la vida", "acabar con mi vida",
            "terminar con mi vida", "poner fin a mi vida", "ahorcarme", "colgarme$", "pegarme un tiro",
            "tirarme de un puente", "tirarme por la ventana", "me voy a suicidar", "me quiero matar",
        ],
    ),
    (3, PlanOrMeans, Me, &["cortarme las venas", "nota de suicidio", "carta de suicidio"]),
    (
        3,
        Overdose,
        Me,
        &[
            "tomé demasiadas pastillas", "he tomado demasiadas pastillas", "me tomé todas las pastillas",
            "tomé todas las pastillas",
        ],
    ),
    (
        2,
        PassiveIdeation,
        Me,
        &[
            "quiero morir", "quiero morirme", "quisiera morir", "quisiera morirme", "me quiero morir",
            "ganas de morir", "ganas de morirme", "no quiero vivir", "no quiero vivir más",
            "no quiero seguir viviendo", "ya no quiero vivir", "ojalá estuviera muerto",
            "ojalá estuviera muerta", "estaría mejor muerto", "estaría mejor muerta", "mejor sin mí",
            "no tengo razones para vivir", "sin ganas de vivir", "no tengo ganas de vivir",
            "cansado de vivir", "cansada de vivir", "pensamientos suicidas", "ideas suicidas",
        ],
    ),
    (2, SelfHarm, Me, &["hacerme daño", "autolesionarme", "cortarme$", "me corto$"]),
    (
        1,
        Hopelessness,
        Open,
        &[
            "sin esperanza", "no puedo más$", "no aguanto más", "odio mi vida", "mi vida no tiene sentido",
            "quiero desaparecer",
        ],
    ),
    (1, Distress, Open, &["ataque de pánico", "suicidio"]),
    (
        1,
        ThirdParty,
        Other,
        &[
            "suicidarse", "se suicidó", "matarse", "se mató", "quiere morir", "quiere morirse",
            "quitarse la vida", "se quitó la vida", "quiere matarme",
        ],
    ),
];

pub(super) const ITALIAN: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Me,
        &[
            "uccidermi", "ammazzarmi", "suicidarmi", "togliermi la vita", "farla finita",
            "porre fine alla mia vita", "impiccarmi", "spararmi$", "mi uccido", "mi voglio uccidere",
            "mi voglio ammazzare", "mi vorrei uccidere", "mi ammazzo$", "mi suicido",
        ],
    ),
    (3, PlanOrMeans, Me, &["tagliarmi le vene"]),
    (3, Overdose, Me, &["preso troppe pillole", "preso tutte le pillole"]),
    (
        2,
        PassiveIdeation,
        Me,
        &[
            "voglio morire", "vorrei morire", "vorrei essere morto", "vorrei essere morta",
            "non voglio vivere", "non voglio più vivere", "non ho voglia di vivere",
            "non ho più voglia di vivere", "nessun motivo per vivere", "stanco di vivere",
            "stanca di vivere", "pensieri suicidi", "meglio senza di me",
        ],
    ),
    (2, SelfHarm, Me, &["farmi del male", "tagliarmi$", "mi taglio$"]),
    (
        1,
        Hopelessness,
        Open,
        &[
            "senza speranza", "non ce la faccio più", "odio la mia vita", "voglio sparire",
            "la mia vita non ha senso",
        ],
    ),
    (1, Distress, Open, &["attacco di panico", "suicidio"]),
    (
        1,
        ThirdParty,
        Other,
        &[
            "suicidarsi", "uccidersi", "si è suicidato", "si è suicidata", "vuole morire",
            "togliersi la vita", "vuole uccidermi",
        ],
    ),
];

pub(super) const PORTUGUESE: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Me,
        &[
            "me matar", "matar-me", "me suicidar", "suicidar-me", "tirar minha vida", "tirar a minha vida",
            "acabar com a minha vida", "acabar com minha vida", "me enforcar",
        ],
    ),
    (3, PlanOrMeans, Me, &["cortar os pulsos", "cortar meus pulsos"]),
    (3, Overdose, Me, &["tomei todos os remédios", "tomei remédios demais"]),
    (
        2,
        PassiveIdeation,
        Me,
        &[
            "quero morrer", "queria morrer", "queria estar morto", "queria estar morta", "não quero viver",
            "não quero mais viver", "não tenho motivo para viver", "sem vontade de viver",
            "não tenho vontade de viver", "cansado de viver", "cansada de viver", "pensamentos suicidas",
            "melhor sem mim",
        ],
    ),
    (2, SelfHarm, Me, &["me cortar$", "quero me machucar", "me mutilar"]),
    (
        1,
        Hopelessness,
        Open,
        &["sem esperança", "não aguento mais", "odeio minha vida", "quero desaparecer", "quero sumir"],
    ),
    (1, Distress, Open, &["ataque de pânico", "suicídio"]),
    (1, ThirdParty, Other, &["se matar", "se matou", "se suicidar", "se suicidou", "quer morrer"]),
];

pub(super) const DUTCH: &[PhraseRow] = &[
    (
        3,
        ActiveIdeation,
        Open,
        &[
            "mezelf doden", "mezelf van kant maken", "maak mezelf van kant", "zelfmoord plegen",
            "pleeg zelfmoord", "mijn leven beëindigen", "einde aan mijn leven", "er een einde aan maken",
            "mezelf ophangen", "voor de trein springen",
        ],
    ),
    (3, PlanOrMeans, Me, &["mijn polsen doorsnijden"]),
    (3, Overdose, Open, &["te veel pillen genomen", "alle pillen genomen"]),
    (
        2,
        PassiveIdeation,
        Open,
        &[
            "wil dood", "wil ik dood", "wil sterven", "wil niet meer leven", "niet meer wil leven",
            "wil niet leven", "was ik maar dood", "liever dood", "beter af zonder mij", "levensmoe",
            "suïcidaal", "zelfmoordgedachten", "niet meer wakker worden",
        ],
    ),
    (2, SelfHarm, Me, &["mezelf pijn doen", "mezelf snijden", "mezelf iets aandoen"]),
    (
        1,
        Hopelessness,
        Open,
        &["hopeloos", "ik kan niet meer$", "haat mijn leven", "zie het niet meer zitten"],
    ),
    (1, Distress, Open, &["paniekaanval", "zelfmoord"]),
    (1, ThirdParty, Other, &["zichzelf doden", "zelfmoord gepleegd", "zichzelf van kant"]),
];

/// Idioms that contain such words and mean nothing grave.
pub(super) const IDIOMS: &[&str] = &[
    "dying to", "to die for", "die of laughter", "die of laughing", "want to die laughing", "die laughing",
    "want to die of", "dying of", "bored to death", "scared to death", "kill myself laughing",
    "killing myself laughing", "killed myself laughing", "kill myself with laughter",
    "killing myself with work", "killing myself at the gym", "killing myself over this", "killing myself to",
    "killing me", "kill for", "kill time", "killing time", "going to kill me", "gonna kill me",
    "will kill me", "shoot myself in the foot", "drown myself in work", "suicide squad", "suicide bomber",
    "suicide bombers", "suicide bombing", "suicide rate", "suicide rates", "suicide door", "suicide doors",
    "political suicide", "career suicide", "social suicide", "cut myself shaving", "cut myself while",
    "cut myself on", "cut myself cooking", "cut myself chopping", "cut myself a", "cut myself some",
    "cut myself off", "cutting myself off", "hurt myself while", "hurt myself playing",
    "hurt myself running", "hurt myself at", "hurt myself lifting", "hurt myself skiing",
    "hurt myself falling", "hopeless at", "hopeless with", "hopeless romantic", "don't want to live in",
    "don't want to live with", "don't want to live here", "don't want to live there",
    "don't want to live at", "don't want to live near", "don't want to live alone",
    "don't want to live together", "don't want to live next", "do not want to live in",
    "do not want to live with", "do not want to live here", "overdosed on chocolate", "overdosed on sugar",
    "overdosed on coffee", "overdosed on caffeine", "want to die my hair", "take my life in",
    "take my life back", "take my life into", // German
    "ohne kaffee kann ich nicht mehr leben", "ohne kaffee nicht mehr leben", "ohne handy nicht mehr leben",
    "ohne internet nicht mehr leben", "ohne musik nicht mehr leben", "vor lachen", "will nicht leben wie",
    // French
    "me tuer au travail", "me tuer à la tâche", "me tuer de rire", "va me tuer", "vont me tuer",
    "mourir de rire", "envie de mourir de rire", "mourir de faim", "mourir de honte", "veux plus vivre ici",
    "veux plus vivre à", "veux plus vivre avec", "veux plus vivre en", "veux plus vivre dans",
    "veux pas vivre ici", "veux pas vivre à", "veux pas vivre avec", "se tuer au travail",
    "j'ai envie de vivre", "ai envie de vivre", // Spanish
    "va a matarme", "me va a matar", "matarme trabajando", "matarme de risa", "matarme de la risa",
    "quiero morirme de risa", "quiero morir de risa", "quiero morir de vergüenza",
    "quiero morir de la vergüenza", "quiero morir de la risa", "me quiero morir de risa", "cortarme el",
    "cortarme las uñas", "no quiero vivir aquí", "no quiero vivir en", "no quiero vivir con",
    "ya no quiero vivir aquí", "ya no quiero vivir en", "ya no quiero vivir con",
    // Italian
    "ammazzarmi di lavoro", "ammazzarmi dalle risate", "voglio morire dal ridere", "non voglio vivere qui",
    "non voglio vivere a", "non voglio vivere con", "non voglio vivere in", "non voglio più vivere qui",
    "non voglio più vivere con", // Portuguese
    "me matar de rir", "me matar de trabalhar", "vai me matar", "quero morrer de rir",
    "não quero viver aqui", "não quero viver em", "não quero viver com", "não quero mais viver aqui",
    // Dutch
    "niet meer leven zonder", "wil niet leven zonder",
];
